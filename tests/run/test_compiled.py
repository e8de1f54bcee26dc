"""`coopsim phantom run` of scripts that use torch.compile, Triton and CUDA graphs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import coopsim
from coopsim import phantom
from coopsim.base.files import cache_folder
from coopsim.run.probes import toolchain
from tests.run.compiled import SCRIPT, VARIABLES, phantom_run, report_of

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("phantom_gpu")
inductor = pytest.mark.skipif(bool(toolchain.missing()), reason=f"TorchInductor {toolchain.missing()}")


def unwatched(how: str) -> list[str]:
    """What the script prints on the phantom GPU if nobody watches."""
    folder = {f"{name}_CACHE_DIR": str(cache_folder() / name.lower()) for name in ("TRITON", "TORCHINDUCTOR")}
    command = [sys.executable, str(SCRIPT), how]
    done = subprocess.run(
        command, env=VARIABLES | phantom.environment("t4") | folder, check=True, capture_output=True, text=True
    )
    return [line for line in done.stdout.splitlines() if line.startswith("peaks ")]


@inductor
@pytest.mark.slow
@pytest.mark.parametrize("how", ["inductor", "reduce-overhead"])
def test_peaks_and_traces_are_those_of_the_compiled_script(how: str, tmp_path: Path) -> None:
    """Compiled like unwatched, in less memory than eagerly, and never in the user's caches."""
    theirs = {f"{name}_CACHE_DIR": str(tmp_path / "own" / name) for name in ("TRITON", "TORCHINDUCTOR")}
    file = tmp_path / "t.parquet"
    code, out, err = phantom_run("--json", "--gpu", "t4", "--trace", file, "--", SCRIPT, how, **theirs)
    assert code == 0, err
    report, said = json.loads(out), [line for line in err.splitlines() if line.startswith("peaks ")]
    off = "the trace is of the script with CUDA graphs switched off, as their replays show no ops"
    assert (off in err) == (how == "reduce-overhead")
    check(coopsim.load(file), report)
    assert said == unwatched(how)
    assert (report["compiled_graphs"], report["graph_breaks"], report["steps"]) == (1, [], 4)
    last = said[-1].split()
    assert report["steady_peak_allocated_bytes"] == int(last[1])
    assert report["steady_peak_reserved_bytes"] == int(last[2])
    assert report["first_step_peak_reserved_bytes"] == int(said[0].split()[2])
    assert report["peak_allocated_bytes"] == max(int(line.split()[1]) for line in said)
    assert not (tmp_path / "own").exists()
    if how == "inductor":
        eager, _ = report_of("--gpu", "t4", "--", SCRIPT, "as it is")
        assert eager["compiled_graphs"] == 0
        assert report["peak_allocated_bytes"] < eager["peak_allocated_bytes"] - 8 * MIB  # GELU's input is not kept
    else:  # a graph's memory is reserved; its replays allocate nothing
        assert int(last[1]) < report["peak_allocated_bytes"]


def check(trace: coopsim.Trace, report: dict) -> None:
    """Nothing is missing from it: its live bytes and cuBLAS's workspaces are all that was asked of the allocator."""
    header = trace.header
    assert header["peak_live_bytes"] + header["workspace_bytes"] == header["peak_requested_bytes"]
    if report["steady_peak_allocated_bytes"] == report["peak_allocated_bytes"]:
        assert header["peak_allocated_bytes"] == report["steady_peak_allocated_bytes"]
    names = list(trace.name)
    assert sum(name.startswith("triton.") for name in names) > 4
    assert "aten.addmm.out" in names
    assert trace.flops.sum() == 5 * 2 * 4096 * 256 * 512  # two products ahead; three back, as the input has no gradient
    schedule = coopsim.replay(trace, "coop", budget="75%")
    assert coopsim.summary(schedule, trace)["recomputes"] > 0
    assert coopsim.validate(schedule, trace) == []


@pytest.mark.slow
@inductor
def test_a_captured_step_has_the_kernels(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nmodel = torch.nn.Linear(64, 64).cuda()\n"
        "run = torch.compile(lambda x: torch.nn.functional.gelu(model(x)).sum())\n"
        "def step():\n    run(torch.ones(512, 64, device='cuda')).backward()\n    model.zero_grad()\n"
    )
    trace = coopsim.capture(f"{tmp_path / 'train.py'}:step", warmup=2)
    assert sum(name.startswith("triton.") for name in trace.name) >= 2
    header = trace.header
    assert header["peak_live_bytes"] + header["workspace_bytes"] == header["peak_requested_bytes"]


@pytest.mark.slow
@inductor
def test_out_of_memory_in_compiled_code_names_the_line() -> None:
    code, out, _ = phantom_run("--json", "--gpu", "t4", "--memory", "150MiB", "--", SCRIPT, "inductor")
    assert code == 3
    failed = json.loads(out)["out_of_memory"]
    assert failed["place"] == "compiled.py:24"
    assert failed["held_bytes"]["parameter"] == 4 * (256 * 512 + 512 + 2 * 512 + 512 * 256 + 256)


@pytest.mark.slow
@inductor
def test_kinds_at_a_peak_between_kernels(tmp_path: Path) -> None:
    """Buffers that only kernels write to, with gradients of an earlier pass: nearly nothing is "other"."""
    (tmp_path / "train.py").write_text(
        """
import torch
from torch.nn import functional as F
head = torch.nn.Linear(256, 8192, bias=False).cuda()
optimizer = torch.optim.AdamW(head.parameters())
loss = torch.compile(lambda x, y: F.cross_entropy(F.gelu(head(x)).float(), y))
for i in range(6):
    x = torch.randn(4096, 256, device="cuda")
    loss(x, torch.randint(8192, (4096,), device="cuda")).backward()
    if i % 2:
        optimizer.step()
        optimizer.zero_grad()
"""
    )
    report, _ = report_of("--", tmp_path / "train.py")
    kinds, weights = report["peak_by_kind"], 256 * 8192 * 4
    assert [kinds[name] for name in ("parameters", "gradients")] == [weights, weights]
    assert kinds["other"] < 0.02 * report["peak_allocated_bytes"]


@inductor
def test_a_hand_written_kernel_is_tuned_and_runs(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(
        """
import torch, triton
import triton.language as tl
@triton.autotune([triton.Config({"B": b}) for b in (256, 512)], key=["n"])
@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)
a = torch.ones(1 << 20, device="cuda")
o = torch.empty_like(a)
add[lambda m: (triton.cdiv(a.numel(), m["B"]),)](a, a, o, a.numel())
"""
    )
    report, _ = report_of("--", tmp_path / "kernel.py")
    assert report["peak_allocated_bytes"] > 100 * MIB  # do_bench empties the L2 cache with a buffer of 256 MiB
    assert (report["compiled_graphs"], report["first_step_peak_reserved_bytes"]) == (0, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "graphs", "places"),
    [
        ("aot_eager", 1, []),
        ("method", 1, []),
        ("optimizer", 1, ["optimizer.py"]),
        ("step", 2, ["compiled.py:25", "optimizer.py"]),
    ],
)
def test_graphs_breaks_and_steps(how: str, graphs: int, places: list[str]) -> None:
    report, said = report_of("--gpu", "t4", "--", SCRIPT, how)
    assert (report["compiled_graphs"], report["steps"], len(said)) == (graphs, 4, 4)
    found = [end["place"] for end in report["graph_breaks"]]
    for place in places:
        assert any(end.startswith(place) for end in found), found
    assert bool(found) == bool(places)
    assert not any(end["uncompiled"] for end in report["graph_breaks"])


@pytest.mark.slow
def test_steps_are_counted_where_compilation_is_switched_off() -> None:
    report, said = report_of("--gpu", "t4", "--", SCRIPT, "step", TORCH_COMPILE_DISABLE="1")
    assert (report["compiled_graphs"], report["steps"], len(said)) == (0, 4, 4)


@pytest.mark.slow
def test_a_break_is_said_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "breaks.py").write_text(
        "import torch\ndef f(x):\n    y = x * 2\n    print('here')\n    return y + 1\n"
        "torch.compile(f, backend='aot_eager')(torch.ones(3, device='cuda'))\n"
    )
    code, out, err = phantom_run("--", tmp_path / "breaks.py")
    assert code == 0
    assert "compiled        2 graphs, 1 graph break\n" in out
    assert "graph break at breaks.py:4: " in out
    assert err.splitlines()[:2] == [
        "compiling graph 1: 1 ops, for breaks.py:6",
        "compiling graph 2: 1 ops, for breaks.py:4",
    ]


@pytest.mark.slow
def test_max_autotune_is_not_predicted(tmp_path: Path) -> None:
    """Where Triton is missing that is said first."""
    script = tmp_path / "tuned.py"
    script.write_text(
        "import torch\ntorch.compile(lambda x: x * 2, mode='max-autotune')(torch.ones(3, device='cuda'))\n"
    )
    code, out, err = phantom_run("--gpu", "t4", "--", script)
    if toolchain.missing():
        assert (code, err.splitlines()[-1]) == (2, f"coopsim: torch.compile {toolchain.missing()}")
        return
    assert code == 0
    assert out.splitlines()[-1].startswith("caution: max-autotune chooses kernels by times that only the card")


WITHOUT = "import importlib.metadata as m\nm.version = lambda name: exec('raise m.PackageNotFoundError(name)')\n"
FAILS = {
    "no Triton": (
        f"{WITHOUT}import torch\ntorch.compile(lambda x: x * 2)(torch.ones(3, device='cuda'))\n",
        r"torch\.compile needs Triton, which is not installed: pip install --no-deps triton(==\d+\.\d+\.\d+)?",
    ),
    "no Triton, and errors suppressed": (
        f"{WITHOUT}import torch, torch._dynamo\ntorch._dynamo.config.suppress_errors = True\n"
        "torch.compile(lambda x: x * 2)(torch.ones(3, device='cuda'))\n",
        r"torch\.compile needs Triton, which is not installed: pip install --no-deps triton(==\d+\.\d+\.\d+)?",
    ),
    "an error of the backend, suppressed": (
        "import torch, torch._dynamo\ntorch._dynamo.config.suppress_errors = True\n"
        "def backend(module, inputs): raise ValueError('no such op')\ndef f(x): return x * 2\n"
        "torch.compile(f, backend=backend)(torch.ones(3, device='cuda'))\n",
        r"script\.py:4: torch\.compile compiled nothing: no such op",
    ),
    "an error of the backend": (
        "import torch\ndef backend(module, inputs): raise ValueError('no such op')\n"
        "torch.compile(lambda x: x * 2, backend=backend)(torch.ones(3, device='cuda'))\n",
        r"script\.py:2: ValueError: no such op",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", FAILS)
def test_what_cannot_be_compiled_is_said_and_never_eager(text: str, tmp_path: Path) -> None:
    program, said = FAILS[text]
    (tmp_path / "script.py").write_text(program)
    code, out, err = phantom_run("--json", "--", tmp_path / "script.py")
    assert (code, out) == (2, "")
    assert re.fullmatch(f"coopsim: {said}", err.splitlines()[-1]), err


@pytest.mark.slow
def test_releases_that_would_run_eagerly_are_refused(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(
        "import torch\nfrom coopsim.run.probes import compilation\ncompilation._COMPILES_WATCHED = False\n"
        "try:\n    torch.compile(lambda x: x * 2)(torch.ones(3, device='cuda'))\nexcept RuntimeError:\n    pass\n"
    )
    code, out, err = phantom_run("--json", "--", tmp_path / "old.py")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(
        "coopsim: torch.compile can be watched, without a C++ compiler, in torch 2.7, 2.8 and from 2.10, not "
    )


def test_toolchain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    metadata = toolchain.importlib.metadata
    monkeypatch.setattr(metadata, "requires", lambda _: ["jinja2", 'triton~=3.8.0; platform_system == "Linux"'])
    monkeypatch.setattr(metadata, "version", lambda _: "3.9.1")
    assert toolchain.missing() == "needs Triton 3.8.0, and 3.9.1 is installed: pip install --no-deps triton==3.8.0"
    monkeypatch.setattr(metadata, "version", lambda _: "3.8.2")
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: "/usr/bin/cc")
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda *_: str(tmp_path))
    assert toolchain.missing().startswith(f"needs Python.h for Triton's launchers, and {tmp_path} has none; ")
    (tmp_path / "Python.h").touch()
    assert toolchain.missing() == ""
    monkeypatch.setattr(
        metadata, "requires", lambda _: ['triton (==3.7.0) ; platform_system == "Linux"']
    )  # older torch
    assert toolchain.missing() == "needs Triton 3.7.0, and 3.8.2 is installed: pip install --no-deps triton==3.7.0"
    monkeypatch.setattr(metadata, "version", lambda _: "3.7.0")
    monkeypatch.setattr(toolchain.shutil, "which", lambda _: None)
    assert toolchain.missing().startswith("needs a C compiler")
