"""Edits of the user's calls and loops: made where the place is certain, and nowhere else."""

import ast
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.base.types import CoopsimError
from coopsim.fitting.batch import Given, MadeObject
from coopsim.fitting.bench import Bench
from coopsim.fitting.editing import edits, loops, source
from coopsim.fitting.editing.edits import Edit
from coopsim.fitting.editing.patch import patched
from coopsim.fitting.options import Option
from coopsim.fitting.remedies import settings
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.fitting.survey import Optimizer
from coopsim.run import Script

CALLS = """\
import torch
def main():
    optimizer = AdamW(
        model.parameters(),
        lr=1e-3,
        betas=(0.9, 0.95),
        fused=True,
    )
    loader = DataLoader(data, 64, shuffle=True)
    other = DataLoader(data, batch_size=args.batch + 1)
    third = DataLoader(data, **config)
    arguments = TrainingArguments("é", optim="adamw_torch", **more)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(CALLS, encoding="utf-8")
    return str(path)


def smaller(line: int) -> tuple[int, str, tuple[tuple[str, int, str], ...]]:
    return line, "DataLoader", (("batch_size", 1, "{} // 4"),)


@pytest.mark.parametrize(
    ("edit", "new"),
    [
        (smaller(9), "    loader = DataLoader(data, 16, shuffle=True)"),
        (smaller(10), "    other = DataLoader(data, batch_size=(args.batch + 1) // 4)"),
        ((12, "TrainingArguments", (("optim", -1, '"adafactor"'),)), 'optim="adafactor", **more)'),
        ((9, "DataLoader", (("num_workers", -1, "2"),)), "DataLoader(data, 64, shuffle=True, num_workers=2)"),
    ],
)
def test_arguments(edit: tuple, new: str, file: str) -> None:  # type: ignore[type-arg]
    texts: dict[str, str] = {}
    edits.apply([Edit(file, *edit)], texts)
    changed = [row for row in texts[file].splitlines() if row not in CALLS.splitlines()]
    assert len(changed) == 1
    assert changed[0].endswith(new)


@pytest.mark.parametrize(
    "edit",
    [
        smaller(11),  # ** may have it
        smaller(8),  # no such call there
        (12, "TrainingArguments", (("per_device_train_batch_size", -1, "4"),)),
    ],
)
def test_no_edit_where_it_is_not_certain(edit: tuple, file: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(CoopsimError, match=r"no patch: train\.py does not make the"):
        edits.apply([Edit(file, *edit)], {})


def test_another_function_with_an_import_beside_another_edit(file: str) -> None:
    drop = ("betas", "fused", "foreach")
    other = Edit(file, 4, "AdamW", dropped=drop, function="library.Adam8bit", imports="import library")
    texts: dict[str, str] = {}
    edits.apply([other, Edit(file, *smaller(9))], texts)
    rows = texts[file].splitlines()
    assert rows[2:7] == [
        "    import library",
        "    optimizer = library.Adam8bit(",
        "        model.parameters(),",
        "        lr=1e-3,",
        "    )",
    ]
    assert "DataLoader(data, 16, shuffle=True)" in texts[file]
    assert edits.calls([other]) == (
        "import library",
        "library.Adam8bit(",
        "    model.parameters(),",
        "    lr=1e-3,",
        ")",
    )


LOOP = """\
for epoch in range(2):
    for x, y in loader:  # é
        optimizer.zero_grad()
        loss = f(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
        schedule.step()
"""


def test_a_loop_steps_once_per_batches() -> None:
    assert (
        loops.adding_up(LOOP, 4)
        == """\
for epoch in range(2):
    for i, (x, y) in enumerate(loader):  # é
        loss = f(x, y)
        (scaler.scale(loss) / 4).backward()
        if (i + 1) % 4 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        total += loss.item()
        if (i + 1) % 4 == 0:
            schedule.step()
"""
    )


def test_the_gradients_are_those_of_the_whole_batch() -> None:
    """The lines run, with numbers in place of tensors."""

    class Loss(float):
        def backward(self) -> None:
            state["gradient"] += self

        def __truediv__(self, n: float) -> "Loss":
            return Loss(float(self) / n)

    class Optimizer:
        def step(self) -> None:
            state["steps"].append(state["gradient"])

        def zero_grad(self) -> None:
            state["gradient"] = 0.0

    text = "for x in data:\n    o.zero_grad()\n    f(x).backward()\n    o.step()\n"
    state: dict = {"gradient": 0.0, "steps": []}  # type: ignore[type-arg]
    exec(loops.adding_up(text, 2), {"data": [1.0, 3.0, 5.0, 9.0], "f": Loss, "o": Optimizer()})  # noqa: S102
    assert state["steps"] == [2.0, 7.0]


@pytest.mark.parametrize("end", ["if i == 3:", "if i >= 3:", "if i > 3:", "if i + 1 == 4:", "if 3 <= i and True:"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("times", [2, 4])
def test_a_loop_that_ends_after_so_many_batches_trains_as_much(end: str, last: bool, times: int) -> None:
    """The same number of steps, of `times` as many batches, wherever the loop ends."""
    end = f"    {end}\n        break\n"
    body = "    f(x).backward()\n    o.step()\n    o.zero_grad()\n"
    text = f"for i, x in enumerate(data):\n{body + end if last else end + body}"
    before, after = _counts(text, 100), _counts(loops.adding_up(text, times), 100 * times)
    assert after == (before[0], before[1] * times)


def _counts(text: str, batches: int) -> tuple[int, int]:
    """How often a loop steps, and over how many batches."""
    called: list[str] = []
    o = SimpleNamespace(step=lambda: called.append("step"), zero_grad=lambda: None)
    loss = SimpleNamespace(backward=lambda: called.append("batch"))
    text = re.sub(r" / \d+\)", ")", text)
    exec(text, {"data": range(batches), "f": lambda _: loss, "o": o})  # noqa: S102
    return called.count("step"), called.count("batch")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("loss = f(x, y)", "n += 1\n        if n > 3: break"),
        ("for x, y in loader:  # é", "for x, y in range(9):"),
        ("for x, y in loader:  # é", "for j, x in enumerate(loader, 1):"),
        ("scaler.update()", "scaler.update(); log()"),
        ("scaler.step(optimizer)", "if ready: scaler.step(optimizer)"),
        ("loss = f(x, y)", "if not x: continue"),
        ("loss = f(x, y)", "g(x).backward()"),
        ("scaler.scale(loss).backward()", "loss.backward(gradient)"),
        ("optimizer.zero_grad()", "pass"),
    ],
)
def test_no_other_loop_where_it_is_not_certain(old: str, new: str) -> None:
    assert LOOP.count(old) == 1
    text = LOOP.replace(old, new)
    ast.parse(text)
    assert loops.adding_up(text, 4) == ""


@pytest.mark.parametrize(
    ("old", "row"),
    [
        ("for i, batch in enumerate(loader):", "for i, batch in enumerate(loader):"),
        ("for batch in tqdm(loader):", "for i, batch in enumerate(tqdm(loader)):"),
    ],
)
def test_the_counter(old: str, row: str) -> None:
    body = "\n    accelerator.backward(f(batch) + 1)\n    o.step()\n    o.zero_grad()\n"
    assert loops.adding_up(old + body, 2).splitlines()[:2] == [row, "    accelerator.backward(((f(batch) + 1) / 2))"]


def test_the_batch_as_calls_set_it() -> None:
    made = MadeObject("TrainingArguments", "a.py", 3, "lines", batch=8, times=2)
    assert Given(made).wanted == 8
    [edit] = Given(made).edits(4)
    assert edit.arguments == (
        ("per_device_train_batch_size", -1, "2"),
        ("gradient_accumulation_steps", -1, "8"),
    )
    loaders = tuple(MadeObject("DataLoader", "a.py", n, "lines", batch=8) for n in (3, 4))
    assert Given(loaders=loaders).wanted == 8
    assert [e.times for e in Given(loaders=loaders).edits(2)] == [1, 1, 2]
    more = MadeObject("Trainer", "a.py", 9, "lines", times=2, argument="accumulate_grad_batches")
    assert Given(loaders=loaders, adds_up=more).edits(2)[-1].arguments == (("accumulate_grad_batches", -1, "4"),)
    assert Given().wanted is None
    assert Given(MadeObject("TrainingArguments", "", 0, "", batch=8)).wanted is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("a.py", "--lr", "1"), ("a.py", "--lr", "1", "--batch_size", "2")),
        (("a.py", "--batch_size=8"), ("a.py", "--batch_size=2")),
        (("a.py", "--batch-size", "8", "b"), ("a.py", "--batch_size", "2", "b")),
    ],
)
def test_options(words: tuple[str, ...], expected: tuple[str, ...]) -> None:
    found = Option(("--batch_size",), 8).added(words, "2")
    assert tuple(word.replace("-", "_") for word in found) == tuple(word.replace("-", "_") for word in expected)


def test_a_variable_is_deleted_after_its_last_use(file: str) -> None:
    last = source.last_use(file, "loader")
    assert last == "loader = DataLoader(data, 64, shuffle=True)"
    edit = Edit(file, after=last, inserted="del loader")
    assert edits.lines((edit,)) == ("del loader",)
    texts: dict[str, str] = {}
    edits.apply((edit,), texts)
    assert f"    {last}\n    del loader\n    other" in texts[file]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("best = copy(\n    a)\n", ("best = copy(\n    a)", "best")),
        ("self.kept['best'] = a\n", ("self.kept['best'] = a", "self.kept['best']")),
        ("best, least = a, b\n", ("", "")),
        ("best = kept = a\n", ("", "")),
        ("best.update(a)\n", ("", "")),
    ],
)
def test_an_assignment_and_its_target(text: str, found: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    assert source.assigned_at(str(path), 1) == found


@pytest.mark.parametrize(
    "text",
    [
        "x = f()\ndef g():\n    return x\n",  # a function refers to it
        "def f(x):\n    g(x)\n",  # nothing assigns it
        "if a:\n    x = f()\ng(x); h()\n",  # not alone on its line
    ],
)
def test_a_variable_is_not_deleted_where_its_last_use_is_not_certain(text: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    last = source.last_use(str(path), "x")
    assert not last or not source.inserted(text, last, "del x")


OPTIMIZER = """\
optimizer = torch.optim.AdamW(
    net.parameters(),
    foreach=True,
)
optimizer.zero_grad(set_to_none=not keep)
"""


def test_options_of_optimizers_and_of_zero_grad_go_into_their_calls(tmp_path: Path) -> None:
    """Whatever they were; without such a call, lines set them afterwards, and a patch is refused."""
    file = tmp_path / "train.py"
    file.write_text(OPTIMIZER)
    made = Optimizer("AdamW", True, str(file), 1, True, None, True)
    survey: Any = SimpleNamespace(zeroed=[(str(file), 5)], optimizers=[made], peak_in_optimizer=True, skips=False)
    survey.model, survey.models, survey.sharding = None, (), ()
    bench = Bench(Trials(Script((str(file),)), Runs(lambda _: None)), survey)
    cleared, fused, one = settings._others(bench)
    assert patched(cleared, survey) == {str(file): OPTIMIZER.replace("not keep", "True")}
    assert patched(fused, survey) == {str(file): OPTIMIZER.replace("=True,\n", "=True,\n    fused=True,\n")}
    assert patched(one, survey) == {str(file): OPTIMIZER.replace("foreach=True", "foreach=False")}
    both = cleared.with_(one)
    assert patched(both, survey)[str(file)].count("True") == 1
    survey.optimizers = [replace(made, file="", line=0)]
    *_, one = settings._others(bench)
    assert one.lines == ('for group in optimizer.param_groups: group["foreach"] = False',)
    with pytest.raises(CoopsimError, match="no patch: the script does not make the AdamW in one certain place"):
        patched(one, survey)
