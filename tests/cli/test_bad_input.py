"""Bad input: one clear line, exit code 2 (3 where memory is the reason), no traceback, nothing written."""

import json
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coopsim.trace import TraceBuilder, save
from tests.conftest import BERT, ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with good and bad files in it, as the current one."""
    b = TraceBuilder()
    x, y = b.storage(1 << 20, "parameter", alive_at_start=True), b.storage(1 << 20)
    b.op("aten.relu.default", reads=[x], creates=[y], cost_ns=1000)
    b.op("aten.neg.default", reads=[y], cost_ns=1000)
    b.free(y)
    save(b.build({"model": "tiny"}), tmp_path / "good.parquet")
    data = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "truncated.parquet").write_bytes(data[: len(data) // 2])
    (tmp_path / "empty.parquet").write_bytes(b"")
    (tmp_path / "text.parquet").write_text("not a trace\n")
    (tmp_path / "pickle.parquet").write_bytes(pickle.dumps({"segments": []}))
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "foreign.parquet")
    table = pq.read_table(tmp_path / "good.parquet")
    header = json.loads(table.schema.metadata[b"coopsim"])

    def rewrite(name: str, table: pa.Table, header: object) -> None:
        pq.write_table(table.replace_schema_metadata({b"coopsim": json.dumps(header).encode()}), tmp_path / name)

    rewrite("newer.parquet", table, header | {"schema_version": 99})
    rewrite("listed.parquet", table, [1, 2])
    rewrite("narrow.parquet", table.drop_columns(["reads"]), header)
    costs = pa.array([None, None, 1000, -5, None], pa.int64())
    rewrite("negative.parquet", table.set_column(table.schema.get_field_index("cost_ns"), "cost_ns", costs), header)
    costs = pa.array([None, None, 1000, 7, None], pa.int64())
    rewrite("edited.parquet", table.set_column(table.schema.get_field_index("cost_ns"), "cost_ns", costs), header)
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "raises.py").write_text("def step():\n    raise ValueError('no data today')\n")
    (tmp_path / "nostep.py").write_text("x = 1\n")
    (tmp_path / "syntax.py").write_text("def step(:\n")
    (tmp_path / "asks.py").write_text("import torch\ntorch.ones(1).cuda()\n")
    (tmp_path / "nogpu.py").write_text("raise RuntimeError('No CUDA GPUs are available')\n")
    for name, text in GRIDS.items():
        (tmp_path / f"{name}.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


GRIDS = {
    "torn": 'traces = ["good.parquet"',
    "deep": f"budgets = {'[' * 5000}{']' * 5000}",
    "unknown": 'traces = ["good.parquet"]\npolicy = ["coop"]\n',
    "untraced": 'policies = ["coop"]\n',
    "absent-trace": 'traces = ["absent.parquet"]\n',
    "number": 'traces = ["good.parquet"]\nbudgets = [0.5]\n',
    "none": 'traces = ["good.parquet"]\npolicies = []\n',
    "band": 'traces = ["good.parquet"]\nband = 0\n',
    "width": 'traces = ["good.parquet"]\nband_width = 0.05\n',
    "steps": 'traces = ["good.parquet"]\nsteps = [1, "many"]\n',
    "decide": 'traces = ["good.parquet"]\ncost_model = "costs"\n',
    "limit": 'traces = ["good.parquet"]\noverhead_limit = 0.5\n',
    "torch": 'traces = ["good.parquet"]\ntorch = "2.15.0"\n',
    "version": 'traces = ["good.parquet"]\nallocators = "cuda-caching"\ntorch = [2.15]\n',
    "budgets": 'traces = ["good.parquet"]\nbudgets = ["100%"]\n',
    "step": 'traces = ["good.parquet"]\nstep = 0.5\n',
}
REPLAY = ("--policy", "coop", "--budget", "50%")
CASES: list[tuple[tuple[str, ...], int, str]] = [
    # trace files
    (("info", "absent.parquet"), 2, "absent.parquet: no such file"),
    (("info", "a-folder"), 2, "is a directory"),
    (("info", "empty.parquet"), 2, "not a trace file"),
    (("info", "text.parquet"), 2, "not a trace file"),
    (("info", "pickle.parquet"), 2, "not a trace file"),
    (("info", "truncated.parquet"), 2, "not a trace file"),
    (("info", "foreign.parquet"), 2, "not written by coopsim"),
    (("info", "newer.parquet"), 2, "newer than this coopsim"),
    (("info", "listed.parquet"), 2, "the header is not an object"),
    (("info", "narrow.parquet"), 2, "columns missing: reads"),
    (("info", "negative.parquet"), 2, "row 3: negative cost_ns (-5)"),
    (("info", "edited.parquet"), 2, "do not match the hash"),
    (("info", "synth:chian:16"), 2, "did you mean"),
    (("info", "\udcff.parquet"), 2, r"\udcff.parquet: a name that is not UTF-8"),
    (("capture", "bilstm", "-o", "\udcff.parquet"), 2, "a name that is not UTF-8"),
    (("sweep", "deep.toml", "-o", "r"), 2, "nested too deeply"),
    # names
    (("replay", "good.parquet", "--policy", "copo", "--budget", "50%"), 2, "unknown policy 'copo'; did you mean coop"),
    (
        ("replay", "good.parquet", "--policy", "coop:place=low", "--budget", "50%"),
        2,
        "did you mean in_place or placement",
    ),
    (("replay", "good.parquet", "--policy", "coop:placement=left", "--budget", "50%"), 2, "unknown placement 'left'"),
    (("replay", "good.parquet", *REPLAY, "--allocator", "aren"), 2, "did you mean arena"),
    (("replay", "good.parquet", *REPLAY, "--cost-model", "time"), 2, "unknown --cost-model 'time'"),
    (("list", "policy"), 2, "unknown kind 'policy'; did you mean policies?"),
    (("replai", "good.parquet"), 2, "unknown verb 'replai'; did you mean replay?"),
    ((), 2, "the following arguments are required: VERB"),
    (("fit", "--gpus", "t4", "--", "a.py", "--x"), 2, "coopsim fit: unknown option '--gpus'; did you mean --gpu?"),
    (("replay", "good.parquet", "--memory", "50%"), 2, "unknown option '--memory'; did you mean --budget?"),
    (("fit", "--budget", "5GiB", "--", "a.py"), 2, "unknown option '--budget'; did you mean --memory?"),
    (("replay", "good.parquet", *REPLAY, "--jsn"), 2, "coopsim replay: unknown option '--jsn'; did you mean --json?"),
    (("replay", "good.parquet", *REPLAY, "coop"), 2, "unrecognized arguments: coop"),
    # budgets and numbers
    (("replay", "good.parquet", "--policy", "coop"), 2, "required: --budget"),
    (("replay", "good.parquet", "--policy", "coop", "--budget", "0.5"), 2, 'has no unit; did you mean "50%"?'),
    (("replay", "good.parquet", "--policy", "coop", "--budget", "0%"), 2, "between 1B and 1 EiB"),
    (("replay", "good.parquet", "--policy", "coop", "--budget=-6GiB"), 2, "between 1B and 1 EiB"),
    (("replay", "good.parquet", "--policy", "coop", "--budget", "6gb"), 2, "did you mean GB?"),
    (("replay", "good.parquet", "--policy", "coop", "--budget", "lots"), 2, "not an amount of memory"),
    (("replay", "good.parquet", "--policy", "coop", "--budget", "100"), 2, "has no unit"),
    (("replay", "good.parquet", *REPLAY, "--steps", "0"), 2, "not a whole number from 1 to a million"),
    (("replay", "good.parquet", *REPLAY, "--steps", "many"), 2, "not a whole number from 1 to a million"),
    (("replay", "good.parquet", *REPLAY, "--overhead-limit", "0.5"), 2, "overhead_limit: 0.5 is not a number from 1"),
    (("replay", "good.parquet", "--policy", "coop", "--budget", "100B"), 2, "less than one block"),
    # the caching allocator
    (("replay", "good.parquet", *REPLAY, "--torch", "2.15.0"), 2, "are for the allocator cuda-caching, not for arena"),
    (("replay", "good.parquet", *REPLAY, "--alloc-conf", ""), 2, "are for the allocator cuda-caching, not for arena"),
    (("replay", "good.parquet", *REPLAY, "--allocator", "cuda-caching", "--torch", "1.13"), 2, "not simulated"),
    (
        ("replay", "good.parquet", *REPLAY, "--allocator", "cuda-caching", "--alloc-conf", "max_split_size_mb:1"),
        2,
        "max_split_size_mb: 1 is below 20",
    ),
    (("replay", "good.parquet", *REPLAY, "--semantics", "simrd"), 2, "unknown option '--semantics'"),
    (("import", "simrd", "x.log", "-o", "T"), 2, "unknown format 'simrd'"),
    # memory
    (("replay", "good.parquet", *REPLAY), 3, "1 MiB cannot be evicted"),
    (("replay", "good.parquet", "--policy", "lru", "--budget", "512KiB"), 3, "what is there when the step starts"),
    # outputs
    (("replay", "good.parquet", "--policy", "coop", "--budget", "100%", "-o", "no/such/s.parquet"), 2, "o such"),
    (("sweep", "good.parquet", "-o", "no/such/r.parquet"), 2, "no such folder"),
    (("sweep", "good.parquet", "--budget", "90%:50%", "-o", "r.parquet"), 2, "not FROM:TO:STEP"),
    (("sweep", "good.parquet", "--policy", "coop,lruu", "-o", "r.parquet"), 2, "did you mean lru"),
    (("sweep", "good.parquet", "absent.parquet", "-o", "r.parquet"), 2, "absent.parquet: no such file"),
    (("sweep", "good.parquet", "--band-width", "2", "-o", "r.parquet"), 2, "not a percentage"),
    (("sweep", "good.parquet", "--cost-model", "cost,time", "-o", "r.parquet"), 2, "unknown cost_model 'time'"),
    (("sweep", "good.parquet", "--steps", "10,0", "-o", "r.parquet"), 2, "not a whole number from 1 to a million"),
    (("sweep", "good.parquet", "--overhead-limit", "nan", "-o", "r.parquet"), 2, "nan is not a number from 1"),
    (
        ("sweep", "good.parquet", "--torch", "2.15.0", "-o", "r.parquet"),
        2,
        "for the allocator cuda-caching, not for arena",
    ),
    (("sweep", "good.parquet", "--allocator", "cuda-caching", "--torch", "1.13", "-o", "r"), 2, "not simulated"),
    (("sweep", "good.parquet", "--allocator", "cuda-caching", "--alloc-conf", "x:1", "-o", "r"), 2, "unknown setting"),
    (("sweep", "good.parquet", "--executor", "ray://x:1", "-o", "r"), 2, "is none of processes, dask://HOST:PORT"),
    (("sweep", "good.parquet", "--executor", "dask://x:1", "-j", "2", "-o", "r"), 2, "--jobs is for processes"),
    # grids in files
    (("sweep", "absent.toml", "-o", "r"), 2, "absent.toml: no such file"),
    (("sweep", "torn.toml", "-o", "r"), 2, "torn.toml: not TOML"),
    (("sweep", "unknown.toml", "-o", "r"), 2, "unknown key 'policy'; did you mean policies"),
    (("sweep", "unknown.toml", "good.parquet", "-o", "r"), 2, "give no other traces"),
    (("sweep", "untraced.toml", "-o", "r"), 2, "names no traces"),
    (("sweep", "absent-trace.toml", "-o", "r"), 2, "absent.parquet: no such file"),
    (("sweep", "number.toml", "-o", "r"), 2, "budgets: a list of texts is needed, not [0.5]"),
    (("sweep", "none.toml", "-o", "r"), 2, "policies: a list of texts is needed, not []"),
    (("sweep", "band.toml", "-o", "r"), 2, "band: 0 is not a whole number"),
    (("sweep", "width.toml", "-o", "r"), 2, "band_width: 0.05 is not a percentage"),
    (("sweep", "steps.toml", "-o", "r"), 2, "steps: 'many' is not a whole number"),
    (("sweep", "decide.toml", "-o", "r"), 2, "unknown cost_model 'costs'; did you mean cost"),
    (("sweep", "limit.toml", "-o", "r"), 2, "overhead_limit: 0.5 is not a number from 1"),
    (("sweep", "torch.toml", "-o", "r"), 2, "for the allocator cuda-caching, not for arena"),
    (("sweep", "version.toml", "-o", "r"), 2, "torch: 2.15 is not text"),
    # maps
    (("map", "good.parquet", "--step", "0.5", "-o", "m"), 2, "'0.5' is not a percentage"),
    (("map", "good.parquet", "--largest", "10%", "--smallest", "100%", "-o", "m"), 2, "a map goes down"),
    (("map", "good.parquet", "--fine", "0.3%", "-o", "m"), 2, "a whole number of finer steps"),
    (("map", "budgets.toml", "-o", "m"), 2, "unknown key 'budgets'"),
    (("map", "step.toml", "-o", "m"), 2, "step: 0.5 is not a percentage"),
    (("map", "good.parquet", "--step", "0.00001%", "-o", "m"), 2, "a million is the most"),
    (("map", "good.parquet", "-o", "no/such/m"), 2, "no such folder"),
    # advice
    (("advise", "good.parquet", "--gpu", ""), 2, "unknown card ''"),
    (("advise", "absent.parquet", "--memory", "1GiB"), 2, "absent.parquet: no such file"),
    (("advise", "a-folder", "--memory", "1GiB"), 2, "s a directory"),
    (("advise", "empty.parquet", "--memory", "1GiB"), 2, "not a memory snapshot"),
    (("advise", "text.parquet", "--memory", "1GiB", "--all"), 2, "not a memory snapshot"),
    (("advise", "pickle.parquet", "--memory", "1GiB"), 2, "pickle.parquet: "),
    (("advise", "truncated.parquet", "--memory", "1GiB"), 2, "not a trace file"),
    (("advise", "good.parquet", "--memory", "1GiB", "--torch", ""), 2, "torch '' is not a version"),
    (("advise", "good.parquet", "--memory", "1GiB", "--torch", "9.9"), 2, "not simulated"),
    (("advise", "good.parquet", "--memory", "1GiB", "--alloc-conf", "rubbish"), 2, "unknown setting 'rubbish'"),
    (
        ("advise", "good.parquet", "--memory", "1GiB", "-o", "no-such/memory.png"),
        2,
        "no-such/memory.png: no such folder",
    ),
    (("advise", "good.parquet", "--memory", "1GiB", "--device", "1"), 2, "a trace has one device"),
    (("advise", "good.parquet", "--memory", "1GiB", "-o", "x.bmp"), 2, "cannot draw 'bmp'"),
    (("advise", "good.parquet", "--memory", "1B"), 2, "less than one block"),
    # what allocators answer
    (("requests", "good.parquet", "--alloc-conf", "rubbish"), 2, "unknown setting 'rubbish'"),
    (("requests", "good.parquet", "--alloc-conf", "max_split_size_mb:99999999999999999999"), 2, "out of range"),
    (("requests", "good.parquet", "--torch", ""), 2, "torch '' is not a version"),
    (("requests", "good.parquet", "--against", ""), 2, "write torch==VERSION"),
    (("live", "run", "--memory", "8GiB", "--", "nogpu.py"), 2, "name a card to imitate: --gpu"),
    (("live", "run", "--memory", "8GiB", "--", "asks.py"), 2, "there is no GPU here, and asks.py asks for one"),
    (("replay", "good.parquet", "--policy", "coop", "--budget", "-50%"), 2, "must be between 1B and 1 EiB, not '-50%'"),
    (("fit", "--gpu", "rtx-3060", "--time", "-5s", "--", "a.py"), 2, "'-5s' is not a duration"),
    (
        ("sweep", "good.parquet", "--policy", "coop", "--budget", "50%", "-o", "/proc/x.parquet"),
        2,
        "/proc is a folder",
    ),
    (
        ("replay", "good.parquet", "--policy", "coop", "--budget", "50%", "-o", "/proc/x.parquet"),
        2,
        "/proc is a folder",
    ),
    (("requests", "text.parquet"), 2, "not a trace file"),
    # optima
    (("gap", "good.parquet", "--budget", "60"), 2, "--budget '60' has no unit"),
    (("gap", "good.parquet", "--budget", "60%:10%"), 2, "not FROM:TO:STEP"),
    (("gap", "good.parquet", "--budget", "60%", "--policy", "copo"), 2, "did you mean coop"),
    (("gap", "good.parquet", "--budget", "60%", "--time-limit", "0"), 2, "not a whole number from 1"),
    # lists
    (("list", "models", "--choices"), 2, "--choices is for policies, not for models"),
    # the largest batch
    (("phantom", "run", "--largest", "1:99999999", "--", "python", "{}"), 2, "from 1 to a million"),
    (("phantom", "run", "--largest", "1:8", "--trace", "t", "--", "python", "{}"), 2, "--trace is for one run"),
    (("phantom", "run", "--largest", "1:8", "--gpu", "rtx", "--", "python", "{}"), 2, "unknown card 'rtx'"),
    # schedules
    (("validate", "good.parquet"), 2, "not a coopsim schedule"),
    (("validate", "text.parquet"), 2, "not a schedule file"),
    (("plot", "good.parquet", "--timeline"), 2, "neither a schedule nor the table of a sweep or map"),
    (("plot", "absent.parquet"), 2, "no such file"),
    # capture
    (("capture", "bert-lrage", "-o", "t.parquet"), 2, "did you mean bert-large"),
    (("capture", "absent.py:step", "-o", "t.parquet"), 2, "absent.py"),
    (("capture", "nostep.py:step", "-o", "t.parquet"), 2, "step"),
    (("capture", "raises.py:step", "-o", "t.parquet"), 2, "no data today"),
    (("capture", "syntax.py:step", "-o", "t.parquet"), 2, "syntax.py"),
    (("capture", "bert-large", "--optimizer", "lion", "-o", "t.parquet"), 2, "adamw"),
    (("capture", "bert-large", "--amp", "fp8", "-o", "t.parquet"), 2, "bf16"),
    (("capture", "resnet-50", "--attention", "sdpa", "-o", "t.parquet"), 2, "resnet-50 has no attention"),
    (("capture", "raises.py:step", "--amp", "bf16", "-o", "t.parquet"), 2, "a file sets its own"),
    (("capture", "bert-large", "--gpu", "a100", "-o", "t.parquet"), 2, "a100-80gb"),
]


@pytest.mark.parametrize(("args", "code", "says"), CASES, ids=[" ".join(c[0])[:70] or "nothing" for c in CASES])
def test_one_clear_line(coopsim, folder: Path, args: tuple[str, ...], code: int, says: str) -> None:
    before = sorted(folder.rglob("*"))
    answer = coopsim(*args)
    lines = [line for line in answer.err.splitlines() if line.startswith("coopsim")]
    assert answer.code == code
    assert len(lines) == 1, answer.err
    assert says in lines[0]
    assert "Traceback" not in answer.err
    assert sorted(p for p in folder.rglob("*") if "__pycache__" not in str(p)) == before


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 40


def test_json_is_printed_whatever_the_outcome(coopsim, folder: Path) -> None:
    answer = coopsim("replay", "good.parquet", *REPLAY, "--json")
    assert answer.code == 3
    found = json.loads(answer.out)
    assert found["outcome"] == "oom"
    assert found["overhead"] is None
    assert found["failure"]["non_evictable_bytes"] == {"parameter": 1 << 20}


def test_a_schedule_of_another_trace_is_refused(coopsim, folder: Path) -> None:
    assert coopsim("replay", "good.parquet", "--policy", "lru", "--budget", "100%", "-o", "s.parquet").code == 0
    assert coopsim("validate", "s.parquet").code == 0
    answer = coopsim("validate", "s.parquet", "--trace", BERT)
    assert answer.code == 2
    assert "made from another trace" in answer.err


def test_a_name_for_a_trace(coopsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert coopsim("info", "bert-large", "--json") == coopsim("info", BERT, "--json")
    answer = coopsim("info", "bert-larg")
    assert (answer.code, answer.out) == (2, "")
    said = "coopsim: bert-larg: no such file, nor a trace that comes with coopsim; "
    said += "did you mean bert-large or bert-large@h100?\n"
    assert answer.err == said


def test_nobody_listens() -> None:
    """A closed output, or a reader that has gone, is not a failure of ours to shout about."""
    command = f"{sys.executable} -m coopsim list models"
    for line in (f"{command} >&-", f"set -o pipefail; {command} | true"):
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=ROOT)
        assert (done.returncode in (0, 128 + signal.SIGPIPE), done.stderr) == (True, ""), line


def test_the_solver_is_missing(coopsim, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gap` without its extra: the command that installs it."""
    monkeypatch.setitem(sys.modules, "highspy", None)
    answer = coopsim("gap", "synth:chain:8", "--budget", "60%")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "coopsim: an optimum needs the solver HiGHS: pip install 'coopsim[optimum]'\n"
