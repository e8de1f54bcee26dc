"""The parts of the search that need no run: places of batches, names of modules, places in files."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.base.typed import read
from coopsim.base.types import CoopsimError
from coopsim.fitting import batch, figures, rows
from coopsim.fitting.batch import Given
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import names, source
from coopsim.fitting.remedies import checkpointing, microbatches
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.searching import launching, order, progress, trials
from coopsim.fitting.searching.order import RemedyKind
from coopsim.fitting.searching.trials import Trials
from coopsim.fitting.survey import ModelBlock, ModelSurvey
from coopsim.fitting.verdict import Fit
from coopsim.run import Script
from coopsim.run.records_memory import HostMemory

MODEL = ModelSurvey(
    0, "Net", None, half=False, autocast=False, sharded=False, name="net", prefix="module.", file="", levels=()
)


def test_slices_name_what_is_chosen_and_nothing_else() -> None:
    chosen = ["module.h.0", "module.h.1", "module.h.3", "module.down.first", "module.tail.2.body"]
    assert names.expressions(MODEL, chosen) == ["*net.h[:2]", "net.h[3]", "net.down.first", "net.tail[2].body"]


@pytest.mark.parametrize(
    ("words", "number"), [(("a.py", "--batch", "{64}"), 64), (("a.py", "--batch={8}"), 8), (("a.py", "-b", "{}"), None)]
)
def test_the_batch_that_is_wanted(words: tuple[str, ...], number: int | None) -> None:
    assert batch.has_place(words)
    assert batch.wanted(words) == number
    assert batch.Batch(words, 64).command(2)[-1].endswith("2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{2}", "{4}"), "names more than one batch"),
        (("{0}",), "from 1 to a million"),
        (("{1000001}",), "from 1 to a million"),
    ],
)
def test_batches_that_are_none(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(CoopsimError, match=message):
        batch.wanted(words)


def test_a_place_without_an_option_needs_a_number() -> None:
    with pytest.raises(CoopsimError, match="which batch do you want"):
        batch.by_default(("train.py", "{}"))


def test_a_mistyped_option_of_the_batch_is_said() -> None:
    def fails(script: Script, _: object) -> Any:
        raise CoopsimError(f"{script.command[-1]} is no option")

    tried = trials.Trials(Script(("a.py",), card="t4"), progress.Runs(lambda _: None))
    tried.execute = fails  # type: ignore[assignment, method-assign]
    survey: Any = SimpleNamespace(trainer="", adds_up=False, given=Given(), activation_bytes=0, needs_bytes=1 << 40)
    microbatches.propose(Bench(tried, survey), batch.Batch(("a.py", "--bach={}"), 8))
    assert not tried.found
    assert tried.notes == ["micro-batches: the script fails with every batch that was tried: --bach=4 is no option"]


@pytest.mark.parametrize(
    ("activations", "most", "ran"),
    [(16, 8, [8]), (12, 4, [4, 8]), (12, 2, [4, 2]), (9, 1, [1, 2]), (0, 0, [8, 4, 1]), (10, 16, [2, 4, 8])],
)
def test_micro_batches_begin_with_what_may_suffice(activations: int, most: int, ran: list[int]) -> None:
    """Eight bytes are too many for a batch of 16; `most` is the largest that fits."""
    survey: Any = SimpleNamespace(trainer="", adds_up=False, given=Given(), activation_bytes=activations, needs_bytes=8)
    tried = trials.Trials(Script(("a.py",), card="t4"), progress.Runs(lambda _: None))
    tried.script = replace(tried.script, memory_bytes=1)  # less the headroom, nothing
    seen = []

    def verify(remedy: Remedy, _: object) -> Remedy | None:
        seen.append(int(remedy.command[1]))
        if seen[-1] > most:
            return None
        tried.found[remedy.key] = remedy
        return remedy

    tried.verify = verify  # type: ignore[method-assign]
    microbatches.propose(Bench(tried, survey), batch.Batch(("a.py", "{}"), 16))
    assert seen == ran
    found = [int(remedy.command[1]) for remedy in tried.found.values()]
    assert found == [min(most, 8)] * (most > 0)


def test_what_may_suffice_comes_first_by_what_it_saves_per_run() -> None:
    """One run before a search, what changes numbers or saves too little later, and live last: it takes many runs."""

    saves_runs = {"weights": (20, 1), "a search": (9, 3), "bf16": (5, 1), "live": (30, 6)}
    saves_runs |= {"checkpointing": (10, 1), "little": (1, 1)}
    same = ("a search", "live", "checkpointing")
    kinds = [RemedyKind(name, str, *one, same=name in same) for name, one in saves_runs.items()]
    found = [kind.name for kind in order.by_gain(kinds, 9)]
    assert found == ["checkpointing", "a search", "weights", "bf16", "little", "live"]


def test_running_out_of_memory_is_not_explained_where_it_goes_on() -> None:
    """Live evicts, and goes on: 29 explanations took ten of a trial's 22 seconds."""
    script = Script(("a.py",), card="t4")
    assert launching.changed(script, Changes()).explains
    assert not launching.changed(script, Changes(live="1GiB")).explains


def test_runs_are_told_when_they_begin_still_run_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    said, reminded = [], threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if "now" in text:
            reminded.set()

    monkeypatch.setattr(progress, "_EVERY_S", 0.01)
    told = progress.Runs(say)
    with told.one("one") as ended:
        assert said == ["[1] one …"]
        assert reminded.wait(30)
        ended("fits")
    assert said[1] == "[1] … for 0 s now: one"
    assert "[1] fits (0 s)" in said
    monkeypatch.undo()
    with pytest.raises(CoopsimError), told.one("another"):
        raise CoopsimError("")
    assert said[-1] == "[2] another …"
    assert told.count == 2


def test_changes_join_and_travel() -> None:
    one, other = (
        Changes(lines=((0, "a", ("b",)),)),
        Changes(foreach=False, variables=(("A", "b"),), lines=((1, "", ()),)),
    )
    both = one.with_(other)
    assert both == Changes(foreach=False, variables=(("A", "b"),), lines=((0, "a", ("b",)), (1, "", ())))
    assert Changes.read(both.message()) == both


@pytest.mark.parametrize(
    ("steps", "planned", "failed", "expected"),
    [(3, 1, "", True), (3, 0, "", False), (20, 9, "", False), (20, 10, "", True), (3, 1, "no room", False)],
)
def test_a_budget_takes_a_plan(steps: int, planned: int, failed: str, *, expected: bool) -> None:
    plugin = {"steps": steps, "planned_steps": planned, "failed": failed, "predicted_overhead": 1.25}
    report: Any = SimpleNamespace(outcome="ok", plugin=plugin)
    survey: Any = None
    assert figures.works(report, Changes(live="9MiB")) is expected
    assert figures.ratio(report, survey, Changes(live="9MiB")) == 1.25


def test_a_budget_is_run_as_coopsim_live_runs_it() -> None:
    run = launching.changed(Script(("a.py",)), Changes(live="9MiB"))
    assert (run.plugin, json.loads(run.told)) == ("coopsim.live.guest", {"memory": "9MiB", "hosting": None})


def test_the_largest_blocks_come_first_and_like_ones_in_order() -> None:
    level = [
        ModelBlock(name, kept, own=False, cached=False, statistics=False)
        for name, kept in zip("abcd", (9, 100, 98, 30), strict=True)
    ]
    assert [b.name for b in checkpointing.ordered(level)] == ["b", "c", "d", "a"]


PLACES = {
    "model = Net()\nmodel = model.cuda()\ntrain(model)\n": (2, ""),
    "def main():\n    model = Net(\n        3\n    )\n    train(model)\n": (4, "    "),
    "if __name__ == '__main__':\n    model = Net()\n": (2, "    "),
    "for i in range(2):\n    model = Net()\n": None,
    "if big:\n    model = Net()\nelse:\n    model = Small()\n": None,
    "def a():\n    model = Net()\ndef b():\n    model = Net()\n": None,
    "for model in models:\n    train(model)\n": None,
    "net = Net()\n": None,
    "model = Net(); ref = copy.deepcopy(model)\ntrain(model)\n": (1, ""),
    "model = Net().cuda()\nref = copy.deepcopy(model)\noptimizer = Adam(model.parameters())\n": (2, ""),
    "def main():\n\tmodel = Net(); x = [\n\t1]\n\ttrain(model)\n": (3, "\t"),
    "def main(): model = Net(); train(model)\n": None,
}


@pytest.mark.parametrize("text", PLACES)
def test_where_a_model_is_made_is_certain_or_not(text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(text)
    assert source.after_assignment(str(file), "model") == PLACES[text]


def test_memory_of_the_host_is_beside_the_cards() -> None:
    alone = Fit(
        fits=True, needs_bytes=1 << 30, memory_bytes=8 << 30, remedies=(), basis="", precision="fp32", runs=1, card="t4"
    )
    host = {
        "peak_rss_bytes": 700 << 20,
        "workers": {"count": 2, "peak_rss_bytes": 1 << 30},
        "shared_bytes": 64 << 20,
        "loaders": [{"place": "train.py:5", "workers": 2, "prefetch": 3, "pins": True}],
        "pinned_bytes": 96 << 20,
        "pinned_by": [{"place": "train.py:6", "bytes": 144 << 20}],
    }
    found = replace(alone, host=read(HostMemory, host))
    assert found.to_dict()["host"] == host
    assert str(found).removeprefix(str(alone)).splitlines() == [
        "",
        "",
        "host    700 MiB of its own memory at the peak, without CUDA's libraries",
        "        2 processes beside it: 1 GiB in all; 64 MiB of shared memory",
        "        by a DataLoader at train.py:5: 2 workers, 3 batches each",
        "pinned  96 MiB at the peak; train.py:6: 144 MiB in all",
    ]


def test_rows_are_printed_as_they_are_found() -> None:
    """A header before the first one."""
    said: list[str] = []
    table = rows.Growing(said.append)
    for kind, peak in (("checkpointing", 3 << 30), ("precision", 5 << 29)):
        table.add(Remedy(kind, "", (), peak, 1.25, kind == "checkpointing", True, Changes(), ()))
    assert [line.split() for line in said] == [
        ["kind", "peak", "time", "same", "numbers"],
        ["checkpointing", "3", "GiB", "+25.0%", "yes"],
        ["precision", "2.5", "GiB", "+25.0%", "no"],
    ]


def test_the_rough_answer_is_said_while_the_run_goes_on() -> None:
    said = threading.Event()
    lines: list[str] = []
    with progress.rough_answer(lambda line: (lines.append(line), said.set())) as ((name, file),):  # type: ignore[func-returns-value]
        assert name == progress.VARIABLE
        Path(file).write_text(json.dumps({"parameters": 1 << 30, "gradients": 0, "states": {"SGD": 1 << 30}}))
        assert said.wait(30)
    assert lines == ["at least 2 GiB: parameters 1 GiB, the state of SGD 1 GiB; activations come on top"]


@pytest.mark.parametrize(("first", "ran"), [(False, "abcd"), (True, "ab")])
def test_every_remedy_is_tried_or_those_until_one_fits(first: bool, ran: str) -> None:
    """What fits is found, unless it is withdrawn."""
    remedies = [Remedy("settings", name, (), 0, 1.0, True, False, Changes(), ()) for name in "abcd"]
    tried, seen = Trials(Script(("a.py",), card="t4"), progress.Runs(lambda _: None)), []

    def verify(remedy: Remedy, _: object) -> Remedy | None:
        seen.append(remedy.text)
        if remedy.text not in "bc":
            return None
        tried.found[remedy.key] = remedy
        return remedy

    tried.verify = verify  # type: ignore[method-assign]
    survey: Any = None
    bench = Bench(tried, survey, first)
    bench.each([None, *remedies])
    assert "".join(seen) == ran
    assert bench.first_of([None, *remedies]) == remedies[1]
    bench.withdraw(remedies[1])
    assert "settings: b" not in bench.found
