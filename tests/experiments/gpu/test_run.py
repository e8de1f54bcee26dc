"""The command of many tasks: it can be cut off anywhere and goes on; and, on the phantom GPU, it does its work."""

import gzip
import io
import json
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coopsim import phantom
from coopsim.cards import wheel
from coopsim.cli.parser import build as parser
from coopsim.phantom import build
from coopsim.trace.file import read_parquet
from experiments.gpu import live_cases, names, pack, run, slim_torch, stage_calibrate, stage_live, stage_peaks
from experiments.gpu.run import Runner
from experiments.gpu.tasks import GPU, HOST, PARTS, Task, chosen, plan
from tests.conftest import ROOT
from tests.processes import descendants, processor_seconds, until

SCRIPT = """
import os, sys, time
from pathlib import Path
folder, verb, *names = sys.argv[1:]
with open(Path(folder, "log"), "a") as log:
    log.write(" ".join(names) + "\\n")
if verb == "fail":
    sys.exit("the reason, in a line")
if verb == "sleep":
    time.sleep(60)
for name in names:
    Path(folder, name).write_text(name)
"""


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make a task that writes its files, fails, or takes long."""
    folder = tmp_path / "results"
    folder.mkdir()
    (tmp_path / "stub.py").write_text(SCRIPT)
    monkeypatch.setattr(run, "command_of", lambda task: [sys.executable, str(tmp_path / "stub.py"), *task.arguments])

    def make(name: str, lane: str, makes: str, needs: str = "", verb: str = "write", limit_s: int = 20) -> Task:
        files = tuple(makes.split())
        return Task("requests", name, lane, "stub", (str(folder), verb, *files), files, tuple(needs.split()), limit_s)

    make.folder = folder  # type: ignore[attr-defined]
    return make


def test_in_order_of_value_as_files_come(task) -> None:
    tasks = [task("one", GPU, "a"), task("two", GPU, "b", "s"), task("three", GPU, "c"), task("host", HOST, "s", "a")]
    Runner(task.folder, tasks, 60).run()
    log = (task.folder / "log").read_text().split()
    assert log[0] == "a"
    assert log.index("s") < log.index("b")
    assert sorted(log) == ["a", "b", "c", "s"]
    assert json.loads((task.folder / "run.json").read_text())["tasks"] == dict.fromkeys(
        ["one", "two", "three", "host"], "done"
    )


def test_a_failure_stops_only_what_hangs_on_it(task) -> None:
    tasks = [
        task("one", GPU, "a", verb="fail"),
        task("two", HOST, "b", "a"),
        task("three", GPU, "c", "b"),
        task("four", GPU, "d"),
    ]
    runner = Runner(task.folder, tasks, 60)
    start = time.monotonic()
    runner.run()
    assert time.monotonic() - start < 30
    assert runner.outcome == {"one": "the reason, in a line", "four": "done"}
    again = [task("one", GPU, "a"), *tasks[1:]]
    more = Runner(task.folder, again, 60)
    more.run()
    assert more.outcome == {"one": "done", "two": "done", "three": "done", "four": "done"}
    assert (task.folder / "log").read_text().split().count("d") == 1


def test_time_is_kept(task) -> None:
    tasks = [
        task("one", GPU, "a", verb="sleep", limit_s=1),
        task("two", GPU, "b"),
        task("three", GPU, "c", verb="sleep"),
    ]
    runner = Runner(task.folder, tasks, 5 + 4)
    start = time.monotonic()
    runner.run()
    assert time.monotonic() - start < 9
    assert runner.outcome["one"].startswith("ended after 1 s")
    assert runner.outcome["two"] == "done"
    assert runner.outcome["three"].startswith("ended after")
    assert {file.name for file in task.folder.iterdir()} == {"b", "log", "run.json"}


@pytest.mark.parametrize("libraries", [True, False])
def test_no_gpu_is_said_in_one_line(tmp_path: Path, libraries: bool) -> None:
    """And a PyTorch that lacks CUDA's libraries, as here, is not taken for a machine without a GPU."""
    environment = os.environ | (phantom.without_gpu() if libraries else {})
    if not libraries and wheel.find().has_real_libraries:
        pytest.skip("this PyTorch has CUDA's libraries")
    command = [sys.executable, str(ROOT / "experiments/gpu/run.py"), "--part", "live"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 2
    lacks = f"run.py: the PyTorch of {sys.executable} lacks CUDA's libraries ("
    assert done.stderr.startswith("run.py: PyTorch finds no GPU here: " if libraries else lacks)
    assert done.stderr.count("\n") == 1


def test_help_names_every_part(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Though what a part does is said in percent, which argparse would take for a format."""
    monkeypatch.setattr(sys, "argv", ["run.py", "--help"])
    with pytest.raises(SystemExit):
        run.main()
    said = capsys.readouterr().out
    assert [part for part in PARTS if f"{part}:" not in said] == []


def test_a_part_has_what_it_needs(tmp_path: Path) -> None:
    every = plan(tmp_path, names.MAIN, names.OTHERS, None)
    assert len({task.name for task in every}) == len(every)
    seen = set()
    for part in PARTS:
        tasks = chosen(every, {part})
        made = {file for task in tasks for file in task.makes}
        assert all(set(task.needs) <= made for task in tasks), part
        seen |= {task.name for task in tasks if task.part == part}
    assert seen == {task.name for task in chosen(every, ())} == {task.name for task in every}
    assert {task.part for task in chosen(every, {"live"})} == {"live", "requests"}  # whose task says what machine it is
    assert [task.name for task in chosen(every, {"live"}) if task.part == "requests"] == ["machine"]


def test_every_script_is_there(tmp_path: Path) -> None:
    for which in ("scripts", "compiled"):
        found = stage_peaks.scripts(which)
        assert len(found) == len({script.name for script in found}) >= 14
        assert all(script.file.exists() for script in found)
        assert which == "scripts" or not any("small" in script.missing for script in found)  # a module beside them
    for case in live_cases.CASES:
        assert (ROOT / "experiments" / "gpu" / "programs" / case.program[0]).exists()
        words = stage_live.command(case, tmp_path / "out.json", 1 << 34, 2, "h100-80gb")
        parser().parse_args(words[3:])  # as an option that is not there would end it
    for phantom_ in (False, True):
        machine = {"gpu": "NVIDIA H100 80GB HBM3", "phantom": phantom_}
        (tmp_path / names.MACHINE).write_text(json.dumps({"machine": machine}))
        parser().parse_args(stage_calibrate.command(tmp_path)[3:])


def test_results_of_another_torch_are_not_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "HERE", tmp_path)
    today = run.default_folder("NVIDIA H100", "2.11.0", ())
    assert re.fullmatch(r"nvidia-h100-20\d\d-\d\d-\d\d", today.name)
    today.mkdir(parents=True)
    (today / names.MACHINE).write_text(json.dumps({"machine": {"versions": {"torch": "2.11.0+cu130"}}}))
    assert run.default_folder("NVIDIA H100", "2.11.0", ("live",)) == today
    assert run.default_folder("NVIDIA H100", "2.13.0", ("live",)).name == f"{today.name}-torch-2.13.0"


def test_what_was_spent_is_remembered(task) -> None:
    Runner(task.folder, [task("one", GPU, "a")], 60).run()
    before = json.loads((task.folder / "run.json").read_text())["spent"]["one"]
    assert set(before) == {"wall_s", "cpu_s", "memory_bytes"}
    assert before["memory_bytes"] > 1 << 20
    more = Runner(task.folder, [task("one", GPU, "a"), task("two", GPU, "b")], 60)
    more.run()
    spent = json.loads((task.folder / "run.json").read_text())["spent"]
    assert set(spent) == {"one", "two"}
    assert spent["one"] == before


def test_packed_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "_ROOM", 8192)
    folder, to, back = (tmp_path / name for name in ("results", "to", "back"))
    for made in (folder, to, back):
        made.mkdir()
    content = {f"{i}.bin": bytes([i]) * size for i, size in enumerate((100, 5000, 7680, 3000, 3000, 0))}
    for name, data in (content | {"large.bin": b"x" * 7681, ".1.bin.part": b"half"}).items():
        (folder / name).write_bytes(data)
    assert pack.pack(folder, to) == ["large.bin"]
    tars = sorted(to.iterdir())
    assert [tar.name for tar in tars] == ["results-1.tar", "results-2.tar", "results-3.tar"]
    assert all(tar.stat().st_size <= 8192 + 10240 for tar in tars)
    for path in tars:
        with tarfile.open(path) as tar:
            for member in tar:  # extractall knows no filter before Python 3.11.4
                file = back / member.name
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(tar.extractfile(member).read())
    assert {file.name: file.read_bytes() for file in (back / "results").iterdir()} == content
    first = [tar.read_bytes() for tar in tars]
    pack.pack(folder, to)
    assert [tar.read_bytes() for tar in tars] == first


#: Keys of files of which two runs differ: when, and how long by the clock on the wall.
TIMES = {"machine", "wall_ns", "date", "spent", "search_ns", "planning_ns"}


def content(path: Path) -> object:
    """What a file holds, without times."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key not in TIMES}
        return [plain(item) for item in value] if isinstance(value, list) else value

    rows, header = parts(path)
    return rows, plain(header)


def parts(path: Path) -> tuple[object, dict[str, Any]]:
    """Rows, if a file has some, and all that is not rows."""
    match path.suffix:
        case ".json":
            return None, json.loads(path.read_text())
        case ".gz":
            return None, json.loads(gzip.decompress(path.read_bytes()))
        case ".pickle":
            return None, pickle.loads(path.read_bytes())  # noqa: S301
        case _:
            table, header = read_parquet(path, "file")
            return table.to_pydict(), header


def some_exist(files: list[Path]) -> bool:
    return any(file.exists() for file in files)


def computes(pid: int) -> bool:
    """Whether a process's child has computed for a second."""
    return any(processor_seconds(child) > 1 for child in descendants(pid))


def cut_off(command: list[str], environment: dict[str, str], folder: Path, task: Task) -> None:
    """Start a run, and end it amid a task: when the first of its files is there, or, if they come at its end, when its
    process has computed for a second.
    """
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    for line in running.stdout:
        if line.strip().endswith(f"] {task.name}"):
            break
    if task.script in ("stage_schedules", "stage_execute"):
        amid = partial(some_exist, [folder / name for name in task.makes])
    else:
        amid = partial(computes, running.pid)
    assert until(lambda: running.poll() is not None or amid(), 300)
    assert running.poll() is None, task.name
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=30)
    assert running.returncode == 143, task.name


def test_a_small_build_has_code_for_one_architecture(tmp_path: Path) -> None:
    """A library with a section of device code: two kinds of machines, and PTX; the rest of the file is as it was."""
    codes = {(2, 80): b"a" * 64, (2, 90): b"h" * 32, (1, 90): b"p" * 16}
    entries = b"".join(
        struct.pack("<HHIQ", kind, 0, 64, len(code)) + bytes(12) + struct.pack("<I", arch) + bytes(32) + code
        for (kind, arch), code in codes.items()
    )
    section = bytes(8) + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries
    names_at = 64 + len(section)
    text = b"\0.nv_fatbin\0.other\0"
    table = names_at + len(text)
    rows = [(1, 64, len(section)), (12, 64, 8), (0, names_at, len(text))]
    headers = b"".join(struct.pack("<IIQQQQIIQQ", n, 0, 0, 0, at, size, 0, 0, 0, 0) for n, at, size in rows)
    head = bytearray(64)
    struct.pack_into("<Q", head, 0x28, table)
    struct.pack_into("<HHH", head, 0x3A, 64, len(rows), 2)
    library = tmp_path / "tree.so"
    library.write_bytes(whole := bytes(head) + section + text + headers)
    assert slim_torch.blank(library, 90) == 64 + 16
    assert library.read_bytes() == whole.replace(b"a" * 64, bytes(64)).replace(b"p" * 16, bytes(16))


def test_a_small_build_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel_file = tmp_path / "torch.whl"
    content = {"torch/lib/data.txt": os.urandom(3 << 20), "torch/bin/torch_shm_manager": b"m", "torch/bin/protoc": b"p"}
    with zipfile.ZipFile(wheel_file, "w") as packed:
        for name, data in content.items():
            packed.writestr(name, data)
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["slim_torch.py", str(wheel_file), "sm_90", str(out), "--part-mib", "1"])
    assert slim_torch.main() == 0
    parts = sorted(out.glob("torch.tar.gz.*"))
    assert [part.stat().st_size for part in parts[:-1]] == [1 << 20] * (len(parts) - 1)
    with tarfile.open(fileobj=io.BytesIO(b"".join(part.read_bytes() for part in parts))) as tar:
        found = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    assert found == {name: data for name, data in content.items() if not name.endswith("protoc")}
    monkeypatch.setattr("sys.argv", ["slim_torch.py", str(wheel_file), "hopper", str(out)])
    assert slim_torch.main() == 2


@pytest.mark.slow
def test_cut_off_in_every_stage_on_the_phantom(tmp_path: Path) -> None:
    """ResNet-50 with two images, and U-Net's trace. What is done stays, and in the end all is as after one run."""
    try:
        build.libraries()
    except phantom.PhantomError as reason:
        pytest.skip(str(reason))
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    environment = os.environ | phantom.environment("h100-80gb")
    command = [sys.executable, "-u", str(ROOT / "experiments/gpu/run.py"), "--batch", "2", "--budget-s", "1200"]
    parts = ("requests", "execute", "traces")
    command += [
        "--part",
        ",".join(parts),
        "--models",
        "resnet-50",
        "--others",
        "unet",
        "--pack",
        str(tmp_path / "packed"),
        "--out",
    ]
    first = subprocess.run([*command, str(whole)], env=environment, capture_output=True, text=True)
    assert first.returncode == 0, first.stdout + first.stderr
    tasks = chosen(plan(cut, ("resnet-50",), ("unet",), 2), parts)
    for task in tasks:
        if not task.makes or task.name == "machine":
            continue
        for name in task.makes:  # it may have been done while another stage was waited for
            (cut / name).unlink(missing_ok=True)
        there = {file.name: file.stat().st_mtime_ns for file in cut.glob("*") if file.name != "run.json"}
        cut_off([*command, str(cut)], environment, cut, task)
        assert not task.done(cut), task.name
        assert all((cut / name).stat().st_mtime_ns == made for name, made in there.items())
        assert not list(cut.glob(".*"))
    short = subprocess.run([*command, str(cut), "--budget-s", "7"], env=environment, capture_output=True, text=True)
    assert short.returncode == 1
    assert "missing: " in short.stdout
    last = subprocess.run([*command, str(cut)], env=environment, capture_output=True, text=True)
    assert last.returncode == 0, last.stdout + last.stderr
    expected = {name for task in tasks for name in task.makes} | {"run.json"}
    assert {file.name for file in cut.iterdir()} == {file.name for file in whole.iterdir()} == expected
    for name in sorted(expected):
        assert content(cut / name) == content(whole / name), name
    with tarfile.open(tmp_path / "packed" / "cut-1.tar") as tar:
        assert tar.getnames() == [f"cut/{name}" for name in sorted(expected)]
    _check(cut)
    _report(cut)


def _report(folder: Path) -> None:
    report = [sys.executable, str(ROOT / "experiments/gpu/report.py"), str(folder)]
    refused = subprocess.run([*report, "--accuracy"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "was made on the phantom GPU: no evidence" in refused.stderr
    made = subprocess.run(report, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    text = (folder / "report.md").read_text()
    assert "A rehearsal on the phantom GPU: no number here is evidence." in text
    assert "Not recorded: bert-large, swin-t, gpt3-2.7b, inception-v3, bilstm, spos." in text
    derived = json.loads((folder / "comparison.json").read_text())["content"]["resnet-50"]
    assert derived["differences"] == []  # the phantom against itself
    assert derived["summary"]["both"] == 569
    (found,) = json.loads((folder / "allocator.json").read_text())["content"]["runs"]
    assert found["same_place"] == found["allocations"] > 1000  # PyTorch's own allocator against the simulated one
    assert found["confirmed"] == [True, False]
    for key in ("peak_reserved_bytes", "peak_allocated_bytes"):
        assert found[key][0] == found[key][1] > 0
    fits, by_requests = found["smallest_bytes"]
    assert 0 < fits < by_requests, "convolutions that found no memory took other algorithms"
    assert found["caught_ooms"] > 0


def _check(folder: Path) -> None:
    for file in (file for file in folder.iterdir() if file.suffix != ".gz"):  # answers, beside requests-M.json
        machine = parts(file)[1]["machine"]
        assert machine["gpu"] == "NVIDIA H100 80GB HBM3", file
        assert machine["versions"]["torch"], file
        assert machine["date"].startswith("20"), file
        assert machine["phantom"] is True, file
        assert {"driver", "nvidia_smi", "cuda", "cudnn"} <= set(machine), file  # empty on the phantom
    for policy in (names.PLAIN, *names.POLICIES):
        found = json.loads((folder / f"execution-resnet-50-{policy}.json").read_text())
        assert len(found["ops"]) == len(found["again"]) == len(found["op_ns"]) == len(found["place_ns"])
        assert sum(found["again"]) == found["schedule"]["recomputes"]
        assert (sum(found["again"]) > 0) == (policy != "plain")
        assert found["step_starts"] == [0, 569 + sum(found["again"][: found["step_starts"][1]])]
        for end in ("after_first_step", "after_last_step"):
            same = found[end]
            assert same["identical"] == same["found"] == same["storages"] == 322
        steps = found["schedule"]["steps"]
        assert sum(steps["base_ns"]) == found["schedule"]["base_cost_ns"]
        again = sum(steps["total_ns"]) - sum(steps["base_ns"])
        assert again == found["schedule"]["recompute_cost_ns"]
        assert found["block_bytes"] >= found["arena_peak_bytes"]
    for same in json.loads((folder / names.bits("resnet-50")).read_text())["policies"].values():
        assert all(end["identical"] == end["storages"] == 322 for end in same.values())
    requests = json.loads((folder / "requests-resnet-50.json").read_text())["policies"]
    assert [r["agrees"] for r in requests.values()] == [True] * len(names.POLICIES)
    assert all(r["equal"] == r["requests"] > 1000 for r in requests.values())
