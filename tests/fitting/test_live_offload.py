"""The row "live with offload": where it costs less time than live alone, with the bytes that it takes of the host."""

import ast
import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.cards.profiles import get
from coopsim.cli.live import own_plan
from coopsim.cli.parser import build
from coopsim.fitting import rows
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.figures import HEADROOM
from coopsim.fitting.remedies import live
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.searching import launching
from coopsim.fitting.searching.launching import changed
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.live import plan_file
from coopsim.run import Script
from tests.conftest import ROOT
from tests.live.plans import EMPTY

GIB = 1 << 30
_GUEST = ast.parse((ROOT / "coopsim" / "live" / "guest.py").read_text(encoding="utf-8"))
#: What live's plugin takes, read from its source, as it imports torch.
TAKES = {
    field.target.id
    for node in _GUEST.body
    if isinstance(node, ast.ClassDef) and node.name == "Request"
    for field in node.body
    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
}


class Given(Trials):
    """Trials that give what a test says: (time, host bytes) without and with offload."""

    said: dict[bool, tuple[float, int]]
    ran: list[Changes]

    def verify(self, remedy: Remedy, _: object) -> Remedy:
        time, host = self.said[remedy.changes.offload]
        self.ran.append(remedy.changes)
        self.found[remedy.key] = replace(remedy, time_ratio=time, host_bytes=host, verified=True)
        return self.found[remedy.key]


def found(*said: tuple[float, int]) -> tuple[Given, list[Remedy]]:
    trials = Given(Script(("train.py",), memory_bytes=int(10 * GIB / (1 - HEADROOM)) + 1), Runs(lambda _: None))
    trials.said, trials.ran = dict(zip((False, True), said, strict=True)), []
    report = SimpleNamespace(ranks=0, compiled_graphs=0, steps=6, context_bytes=0)
    survey: Any = SimpleNamespace(report=report)
    live.propose(Bench(trials, survey))
    return trials, list(trials.found.values())


def test_it_is_a_row_beside_live_where_it_costs_less() -> None:
    trials, remedies = found((1.2, 0), (1.02, 3 * GIB))
    assert [remedy.kind for remedy in remedies] == ["live", "live with offload"]
    assert remedies[1].lines == ("coopsim live run --offload --memory 9932MiB -- python train.py",)
    assert remedies[1].row()["host_bytes"] == 3 * GIB
    head, *table = rows.lines(remedies)[0].splitlines()
    assert "host memory" in head
    assert table[-1].endswith("3 GiB")
    assert not trials.notes


@pytest.mark.parametrize(("said", "runs"), [
    (((1.2, 0), (1.2, GIB)), 2),
    (((1.2, 0), (1.1, 0)), 2),
    (((1.005, 0), (1.0, GIB)), 1),
])  # fmt: skip
def test_it_is_none_where_it_is_no_cheaper_or_nothing_was_to_gain(said: Any, runs: int) -> None:
    trials, remedies = found(*said)
    assert [remedy.kind for remedy in remedies] == ["live"]
    assert list(trials.found) == ["live"]
    assert len(trials.ran) == runs
    assert "host memory" not in rows.lines(remedies)[0]


def test_a_machine_with_less_memory_is_told() -> None:
    trials, _ = found((1.2, 0), (1.02, 1 << 60))
    assert len(trials.notes) == 1
    assert "of the host's memory; this machine has" in trials.notes[0]


def test_the_plugin_is_told_to_offload() -> None:
    script = changed(Script(["train.py"]), Changes(live="8GiB", offload=True))
    assert '"hosting": {"link": "", "memory_bytes": null}' in script.told
    assert '"hosting": null' in changed(Script(["train.py"]), Changes(live="8GiB")).told


@pytest.mark.parametrize(
    ("planned", "replans", "runs"), [((0, 3), 0, 2), ((0, 0, 0), 0, 3), ((1,), 0, 1), ((1, 3), 1, 2)]
)
def test_a_plan_that_a_step_has_exceeded_is_mended_and_tried(
    planned: tuple[int, ...], replans: int, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three steps, the third goes by plan; the next run goes on with the plan that was mended, from the first.

    So where a step of the first run has replanned it. The printed command begins with the plan that was verified, on
    the card and on its phantom; with none that was not.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    total = get("h100-80gb").memory_bytes
    told: list[dict[str, Any]] = []

    @dataclass(frozen=True)
    class Ran:
        plugin: dict[str, Any]
        peak_device_bytes: int
        outcome: str = "ok"

    def run(script: Script, **_: object) -> Ran:
        told.append(json.loads(script.told))
        assert Path(told[-1]["plan"]).exists() == (len(told) > 1)  # the plans of the one before
        plan_file.save(replace(EMPTY, card="NVIDIA H100, 5 bytes"), told[-1]["plan"])
        assert told[-1].keys() <= TAKES
        n = len(told)
        found = {"steps": 3, "planned_steps": planned[n - 1], "failed": "", "replans": replans * (n == 1)}
        return Ran(found, 10 - n)

    monkeypatch.setattr(launching, "run", run)
    script = Script(("python", "train.py"), card="h100-80gb", memory_bytes=total // 2)
    report = launching.run_changed(changed(script, Changes(live="8GiB", offload=True)), None)
    assert report.plugin["planned_steps"] == planned[-1]
    assert len(told) == runs
    assert all(one["own"] for one in told)
    assert len({one["plan"] for one in told}) == 1
    assert report.peak_device_bytes == 9
    printed = "live run --offload --memory 8GiB -- python train.py"
    for line in (printed, printed.replace("run", "run --gpu h100-80gb")):
        kept = Path(own_plan(build().parse_args(line.split()), arena=False)["plan"])
        assert kept.exists() == (planned[-1] > 0)
        if kept.exists():
            assert plan_file.load(kept).card == f"NVIDIA H100, {total} bytes"
