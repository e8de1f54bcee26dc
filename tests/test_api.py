"""The public Python API: what a notebook needs from `import coopsim` alone."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import coopsim
from tests.conftest import ROOT
from tests.conftest import coopsim as command

__all__ = ["command"]
PUBLIC = ["load", "capture", "replay", "sweep", "summary", "validate", "plot", "Policy", "Trace", "Schedule"]


def alone(code: str) -> str:
    """What the code prints in a process of its own."""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = "{'numpy', 'numba', 'pandas', 'pyarrow', 'matplotlib', 'torch'} & set(sys.modules)"
    code = f"import sys, time; t = time.perf_counter(); import coopsim; t = time.perf_counter() - t; print({heavy}, t)"
    answers = [alone(code).rpartition(" ") for _ in range(5)]
    assert {names for names, _, _ in answers} == {"set()"}
    assert min(float(seconds) for *_, seconds in answers) < 0.05  # the least: others may be at work on this machine


def test_all_names_are_there() -> None:
    assert set(PUBLIC) <= set(dir(coopsim)) == {*coopsim.__all__, "__version__"}
    assert all(callable(getattr(coopsim, name)) for name in PUBLIC)
    with pytest.raises(AttributeError, match="no attribute 'reply'"):
        coopsim.reply  # noqa: B018


FACE = """
import coopsim, importlib, inspect, pickle, pydoc, rlcompleter, types
assert type(coopsim) is types.ModuleType
complete = rlcompleter.Completer({"coopsim": coopsim}).attr_matches("coopsim.")
shown = pydoc.plain(pydoc.render_doc(coopsim))
for name in coopsim.__all__:
    value = getattr(coopsim, name)
    assert any(found.startswith(f"coopsim.{name}") for found in complete), name
    if isinstance(value, types.ModuleType):
        continue
    assert name in shown, name
    assert pydoc.plain(pydoc.render_doc(value)).startswith("Python Library Documentation: "), name
    assert inspect.getsource(value), name
    assert pickle.loads(pickle.dumps(value)) is value, name
importlib.import_module("coopsim.simulate.replay.score")
before = coopsim.replay
assert importlib.reload(coopsim) is coopsim and coopsim.replay is before and inspect.isfunction(before)
"""


def test_it_behaves_as_any_package() -> None:
    """Help, completion, sources, pickles and reloading; no function has a package's name."""
    assert alone(FACE) == ""
    folders = {path.name for path in (ROOT / "coopsim").iterdir() if path.is_dir()}
    assert {name for name in coopsim.__all__ if name in folders} <= {"live"}


def test_the_issue_s_example(bert: coopsim.Trace) -> None:
    trace = coopsim.load(str(ROOT / "traces" / "bert-large.parquet"))
    schedule = coopsim.replay(trace, "coop", budget="50%", steps=2)
    assert isinstance(schedule, coopsim.Schedule)
    assert coopsim.validate(schedule, trace) == []
    assert "50%" in coopsim.plot(schedule, trace).get_title(loc="left")
    table = coopsim.sweep([trace], ["coop", "dtr-oneflow"], ["90%", "50%"], band=3, steps=1)
    assert len(table) == 12
    assert set(table.policy) == {"coop", "dtr-oneflow"}
    same = table[(table.policy == "coop") & (table.budget_bytes == schedule.header["budget_bytes"])]
    assert same.overhead.iloc[0] == coopsim.replay(trace, "coop", "50%", steps=1).overhead


def test_the_summary_has_the_keys_of_json(command) -> None:
    flags = ("--policy", "coop", "--budget", "60%", "--json")
    printed = json.loads(command("replay", "synth:unet:4", *flags).out)
    trace = coopsim.load("synth:unet:4")
    found = coopsim.summary(coopsim.replay(trace, "coop", "60%"), trace)
    assert list(found) == list(printed)
    assert {k: v for k, v in found.items() if not k.endswith("_ns")} == {
        k: v for k, v in printed.items() if k in found and not k.endswith("_ns")
    }


def test_figures_of_what_there_is(tmp_path: Path) -> None:
    trace = coopsim.load("synth:unet:4")
    schedules = [coopsim.replay(trace, policy, "60%", steps=2) for policy in ("coop", "dtr")]
    assert len(coopsim.plot(schedules, trace)) == 2
    assert coopsim.plot(trace).get_ylabel() == "bytes alive (GiB)"
    assert len(coopsim.plot(coopsim.sweep(trace, ["coop", "lru"], ["100%", "60%"], steps=1))) == 3
    for wrong in ((schedules[0],), ([],), (3,)):
        with pytest.raises(coopsim.CoopsimError):
            coopsim.plot(*wrong)


def test_values_show_themselves() -> None:
    trace = coopsim.load("synth:unet:4")
    assert repr(trace) == f"Trace({trace.label}, {trace.n_ops} ops of a step, {trace.n_storages} storages)"
    assert "without eviction" in trace._repr_html_()
    schedule = coopsim.replay(trace, "coop", "60%", steps=2)
    assert repr(schedule) == f"Schedule({trace.label}, coop, arena, ok, {len(schedule)} actions)"
    assert f"{100 * (schedule.overhead - 1):.1f} %" in schedule._repr_html_()


def test_budgets_have_no_default_that_raises() -> None:
    with pytest.raises(TypeError, match="budget"):
        coopsim.replay(coopsim.load("synth:chain:4"), "coop")  # type: ignore[call-arg]
    assert "budget" in inspect.signature(coopsim.replay).parameters


def test_capture_gives_a_trace(tmp_path: Path, phantom_gpu: object) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n\nw = torch.randn(64, 64, device='cuda', requires_grad=True)\n\n\n"
        "def step():\n    (w @ w).sum().backward()\n    w.grad = None\n"
    )
    trace = coopsim.capture(f"{tmp_path}/train.py:step", tmp_path / "t.parquet")
    assert isinstance(trace, coopsim.Trace)
    assert coopsim.load(tmp_path / "t.parquet").content_hash == trace.content_hash


NAN = float("nan")
WRONG = {
    "a share": (lambda t: coopsim.replay(t, "coop", 0.5), 'did you mean "50%"'),  # type: ignore[arg-type]
    "no budget": (lambda t: coopsim.replay(t, "coop", None), "budget None is not an amount"),  # type: ignore[arg-type]
    "nan": (lambda t: coopsim.replay(t, "coop", NAN), "budget nan is not an amount"),  # type: ignore[arg-type]
    "nothing": (lambda t: coopsim.replay(t, "coop", 0), "between 1B and 1 EiB"),
    "no policy": (lambda t: coopsim.replay(t, None, "50%"), "policy None is no name"),  # type: ignore[arg-type]
    "a number": (lambda t: coopsim.replay(t, 5, "50%"), "policy 5 is no name"),  # type: ignore[arg-type]
    "no allocator": (lambda t: coopsim.replay(t, "coop", "50%", 5), "allocator 5 is no name"),  # type: ignore[arg-type]
    "a trace's name": (lambda _: coopsim.replay("a", "coop", "50%"), "nor a trace that comes with coopsim"),  # type: ignore[arg-type]
    "a link": (lambda t: coopsim.replay(t, "coop", "50%", link=5), "link 5 is no name"),  # type: ignore[arg-type]
    "no trace": (lambda _: coopsim.load(None), "trace None is no name"),  # type: ignore[arg-type]
    "sweep, a share": (lambda t: coopsim.sweep(t, "coop", 0.5), 'did you mean "50%"'),  # type: ignore[arg-type]
    "sweep, no trace": (lambda _: coopsim.sweep(None, "coop", "50%"), "trace None is no name"),  # type: ignore[arg-type]
    "band": (lambda t: coopsim.sweep(t, "coop", "50%", band=None), "band: None is no int"),  # type: ignore[arg-type]
    "fit": (lambda _: coopsim.fit(None, gpu="rtx-3060"), "script: None is no command"),  # type: ignore[arg-type]
    "card": (lambda _: coopsim.fit("a.py", gpu=5), "card 5 is no name"),  # type: ignore[arg-type]
    "seconds": (lambda _: coopsim.fit("a.py", gpu="rtx-3060", seconds=NAN), "seconds nan: a number above 0"),
    "capture": (lambda _: coopsim.capture(None), "target None is no name"),  # type: ignore[arg-type]
    "schedule": (lambda t: coopsim.validate(None, t), "coopsim.replay gives one"),  # type: ignore[arg-type]
    "summary": (lambda t: coopsim.summary(t, t), "coopsim.replay gives one"),  # type: ignore[arg-type]
    "table": (lambda t: t.to_pandas("opps"), "did you mean ops"),
}


@pytest.mark.parametrize("call", WRONG)
def test_arguments_that_make_no_sense(call: str) -> None:
    calls, says = WRONG[call]
    with pytest.raises(coopsim.CoopsimError, match=re.escape(says)):
        calls(coopsim.load("synth:chain:4"))


def test_tables_of_pandas() -> None:
    trace = coopsim.load("synth:chain:4")
    schedule = coopsim.replay(trace, "lru", "100%", steps=1)
    table = schedule.to_pandas()
    assert len(table) == len(schedule)
    assert table["action"][0] == "alloc"
    ops, storages, frees = (trace.to_pandas(name) for name in ("ops", "storages", "frees"))
    assert (len(ops), len(storages), len(frees)) == (trace.n_ops, trace.n_storages, len(trace.freed))
    assert ops["creates"][0] == trace.creates[0]
