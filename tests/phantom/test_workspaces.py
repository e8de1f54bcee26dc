"""What cuDNN asks for: the rules against an H100's measurements, and what PyTorch allocates by them on the phantom."""

import csv
import ctypes
import json
import math
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from coopsim import phantom
from coopsim.phantom import build, by_rule
from tests.conftest import ROOT
from tests.run.command import phantom_run

(GRID,) = (ROOT / "experiments" / "gpu" / "results").glob("nvidia-h100-80gb-hbm3-*/grid.csv")
SMS = 132
MIB = 2**20


class Convolution(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int) for name in ("kind", "bytes", "channels_last", "strided", "spatial")),
        *((name, ctypes.c_int64) for name in ("batch", "channels", "filters", "points", "results", "taps", "groups")),
    )


class Recurrence(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int) for name in ("gates", "bytes", "directions", "layers", "packed")),
        *((name, ctypes.c_int64) for name in ("batch", "steps", "input", "hidden", "weights")),
    )


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    source = resources.files("coopsim.phantom").joinpath("csrc", "cudnn_sizes.c")
    library = tmp_path_factory.mktemp("sizes") / "sizes.so"
    with resources.as_file(source) as file:
        subprocess.run([build.compiler(), "-shared", "-fPIC", "-O2", str(file), "-o", str(library)], check=True)
    found = ctypes.CDLL(str(library))
    for function in (found.convolution_workspace, found.rnn_workspace, found.rnn_reserve):
        function.restype = ctypes.c_int64
    return found


def rows(kind: str) -> Iterator[dict[str, str]]:
    with GRID.open() as file:
        yield from (row for row in csv.DictReader(file) if row["kind"] == kind)


def _is_depthwise(row: dict[str, str]) -> bool:
    groups = json.loads(row["more"])[7]
    return bool(groups > 1 and int(row["shape"].split("x")[1]) == groups)


def block(nbytes: int) -> int:
    return -(-nbytes // 512) * 512


def predicted(sizes: ctypes.CDLL, row: dict[str, str]) -> int:
    """What a row of the grid measures: the peak of the op less what it keeps.

    A backward pass computes the gradient of the input, then those of the weights and of the bias, which it keeps.
    """
    weights, bias, stride, padding, dilation, transposed, more, groups, _ = json.loads(row["more"])
    x, element = [int(n) for n in row["shape"].split("x")], 4 if row["dtype"] == "float32" else 2
    spatial = zip(x[2:], weights[2:], stride, padding, dilation, more, strict=True)
    y = [
        (h - 1) * s - 2 * p + d * (k - 1) + o + 1 if transposed else (h + 2 * p - d * (k - 1) - 1) // s + 1
        for h, k, s, p, d, o in spatial
    ]
    filters = weights[1] * groups if transposed else weights[0]
    of, to = ((filters, y), (x[1], x[2:])) if transposed else ((x[1], x[2:]), (filters, y))

    def asks(way: int) -> int:
        convolution = Convolution(
            {0: 1, 1: 0}.get(way, way) if transposed else way,
            *(element, row["layout"] == "last", max(stride) > 1, len(stride)),
            *(x[0], of[0], to[0], math.prod(of[1]), math.prod(to[1]), math.prod(weights[2:]), groups),
        )
        return block(sizes.convolution_workspace(ctypes.byref(convolution), ctypes.c_int64(SMS)))

    if row["op"] == "forward":
        return asks(0)
    kept = block(math.prod(weights) * element)
    extra = block(filters * element) if bias else 0
    of_input = asks(1) - kept - extra if row["op"] == "backward" else 0
    return max(asks(2) - extra, of_input, 0)


def test_convolutions_agree_with_an_h100(sizes: ctypes.CDLL) -> None:
    """By data type and pass: share of rows to 1 KiB, and error in per cent of all bytes.

    In channels last the reduction of the bias's gradient, PyTorch's own, is in what was measured of a backward pass.
    """
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in rows("conv"):
        if row["layout"] == "c" and row["op"] != "error":
            found[row["op"], row["dtype"]].append((predicted(sizes, row), int(row["workspace_bytes"])))
        elif row["op"] == "forward":
            found["last", row["dtype"]].append((predicted(sizes, row), int(row["workspace_bytes"])))
        elif row["op"] == "backward" and _is_depthwise(row):  # to what the allocator adds to 16-byte alignment
            found["depthwise last", row["dtype"]].append((predicted(sizes, row), int(row["workspace_bytes"])))
    least = {  # docs/phantom-gpu.md
        ("last", "float32"): (0.65, 29),
        ("last", "bfloat16"): (0.87, 29),
        ("depthwise last", "bfloat16"): (0.8, 8),
        ("forward", "float32"): (0.78, 5),
        ("forward", "bfloat16"): (0.87, 20),
        ("forward", "float16"): (0.86, 16),
        ("backward", "float32"): (0.68, 4),
        ("backward", "bfloat16"): (0.65, 19),
        ("backward", "float16"): (0.6, 21),
        ("backward-weights", "float32"): (0.55, 4),
        ("backward-weights", "bfloat16"): (0.15, 4),
        ("backward-weights", "float16"): (0.15, 7),
    }
    for which, (exact, error) in least.items():
        pairs = found[which]
        assert sum(abs(p - m) <= 1024 for p, m in pairs) >= exact * len(pairs), which
        assert 100 * sum(abs(p - m) for p, m in pairs) <= error * sum(m for _, m in pairs), which


def test_recurrent_layers_agree_with_an_h100(sizes: ctypes.CDLL) -> None:
    """Reserves to a few KiB, but for the allocator's remainders; workspaces to 6 %, nearly all to 1 %."""
    exact, errors = [], []
    for row in rows("rnn"):
        name, way = row["op"].split()
        if way != "forward":
            continue
        batch, steps, width = (int(n) for n in row["shape"].split("x"))
        hidden, layers, two, _ = json.loads(row["more"])
        directions, gates = 1 + two, {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
        element = 4 if row["dtype"] == "float32" else 2
        inputs = [width] + [hidden * directions] * (layers - 1)
        weights = sum(directions * gates * hidden * (n + hidden + 2) for n in inputs) * element
        layer = Recurrence(gates, element, directions, layers, 0, batch, steps, width, hidden, weights)
        out = batch * steps * hidden * directions * element
        states = layers * directions * batch * hidden * element * (2 if name == "LSTM" else 1)
        reserve = int(row["kept_bytes"]) - out - states - (weights if element == 2 else 0)
        exact.append(abs(sizes.rnn_reserve(ctypes.byref(layer)) - reserve) <= 4096)
        workspace = int(row["workspace_bytes"]) - batch * steps * width * element  # PyTorch's copy of the input
        errors.append(abs(sizes.rnn_workspace(ctypes.byref(layer)) / workspace - 1))
    assert sum(exact) >= 0.88 * len(exact)
    assert max(errors) < 0.06
    assert sum(error < 0.01 for error in errors) >= 0.88 * len(errors)


def test_narrow_recurrent_layers_take_more(sizes: ctypes.CDLL) -> None:
    """In float32, unless sequences are packed: by the H100's peaks of an LSTM and a GRU (docs/phantom-gpu.md)."""

    def asks(*layer: int) -> int:
        return int(sizes.rnn_workspace(ctypes.byref(Recurrence(*layer)))) - 8 * MIB * layer[2] * layer[3]

    lstm, gru = 16 * 32 * 128 * 4, 4 * 100 * 64 * 4
    assert abs(asks(4, 4, 1, 2, 0, 16, 32, 64, 128, 0) / lstm - 23) < 0.3
    assert abs(asks(3, 4, 2, 1, 0, 4, 100, 64, 64, 0) / gru - 26.1) < 0.1
    assert asks(3, 4, 2, 1, 1, 4, 100, 64, 64, 0) < 14 * gru


TEMPORARIES = """
import torch
from torch import nn
from coopsim.phantom.control import left_out

def requested():
    return torch.cuda.memory_stats()["requested_bytes.all.current"]

def peak(call):
    torch.cuda.reset_peak_memory_stats()
    before = requested()
    out = call()
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - requested(), requested() - before

x = torch.zeros(32, 256, 14, 14, device="cuda", requires_grad=True)
three, one = nn.Conv2d(256, 256, 3, padding=1, bias=False).cuda(), nn.Conv2d(256, 128, 1, bias=False).cuda()
up = nn.ConvTranspose2d(256, 64, 2, 2, bias=False).cuda()
kept = [three(x), one(x)]
g = [torch.zeros_like(y) for y in kept]
found = {"forward": peak(lambda: three(x))[0], "up": peak(lambda: up(x))[0]}
back = torch.ops.aten.convolution_backward
usual = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
found["backward"] = peak(lambda: back(g[0], x, three.weight, *usual))[0]
found["one"] = peak(lambda: back(g[1], x, one.weight, None, [1, 1], [0, 0], *usual[3:]))[0]
last = x.detach().to(memory_format=torch.channels_last)
three.to(memory_format=torch.channels_last)
with torch.no_grad():
    found["last"] = peak(lambda: three(last))[0]
found["left out"] = left_out()
for name, layer in (("lstm", nn.LSTM(128, 256, batch_first=True)), ("gru", nn.GRU(128, 256, batch_first=True))):
    layer.cuda()
    ids = torch.zeros(8, 32, 128, device="cuda")
    found[name] = peak(lambda: layer(ids))
    found[name + " left out"] = left_out()
answer(found)
"""


def test_pytorch_allocates_them(on_phantom: Any) -> None:
    """What the rules say, in requested bytes, and what rows of the grid have; on other cards 0, and the largest of a
    convolution, or of an RNN with its reserve, is known to the report.
    """
    found = on_phantom(TEMPORARIES, card="h100-80gb")
    copy, weights = 32 * 256 * 14 * 14 * 4, 256 * 256 * 9 * 4
    assert found["forward"] == 2 * copy + weights + 400
    assert found["backward"] == 2 * copy + weights + 108 * 65536 + 400  # 22283264 in blocks: the grid's row of resnet18
    assert found["one"] == 32 * 256 * 128 * 4
    assert found["up"] == copy + 64 * 256 * 4 * 4 + copy // 256 * 64 * 4 + 400
    assert found["last"] == 0
    u, state, of_x = 8 * 32 * 256 * 4, 8 * 256 * 4, 8 * 32 * 128 * 4
    assert abs(found["lstm"][1] - (5 * u + u + 4 * state)) <= 2048
    weights = 4 * 256 * (128 + 256 + 2) * 4
    assert abs(found["lstm"][0] - (8 * MIB + weights + 2 * of_x + 5 * u + 12 * state)) < 65536
    assert abs(found["gru"][1] - (6 * u + u + 2 * state)) <= 2048
    assert found["left out"] == 0
    on_other = on_phantom(TEMPORARIES, card="a100-80gb")
    assert on_other["left out"] > 2 * copy
    assert on_other["lstm left out"] > 8 * MIB + 11 * u
    assert {on_other[name] for name in ("forward", "backward", "one", "up", "last")} == {0}


def test_a_workspace_that_does_not_fit_is_not_taken(on_phantom: Any) -> None:
    """PyTorch goes on to a plan without one, so workspaces raise peaks, not the least memory that trains."""
    text = """
import torch
x = torch.zeros(32, 256, 56, 56, device="cuda")
w = torch.zeros(256, 256, 3, 3, device="cuda")
torch.cuda.set_per_process_memory_fraction(260 * 2**20 / torch.cuda.get_device_properties(0).total_memory)
with torch.no_grad():
    y = torch.nn.functional.conv2d(x, w, padding=1)
answer([torch.cuda.max_memory_allocated() >> 20, torch.cuda.memory_stats()["num_alloc_retries"] > 0])
"""
    assert on_phantom(text, card="h100-80gb") == [198, True]


def test_by_default_where_measured_cards_agree() -> None:
    assert [by_rule("", capability) for capability in ("8.0", "8.6", "9.0", "12.0")] == [False, False, True, False]
    assert by_rule("rule", "8.6")
    assert not by_rule("none", "9.0")
    with pytest.raises(phantom.PhantomError, match="rule or none"):
        by_rule("some", "9.0")  # type: ignore[arg-type]


BENCHMARK = """
import sys, torch
torch.backends.cudnn.benchmark = True
x = torch.zeros(64, 64, 56, 56, device="cuda")
model = torch.nn.Conv2d(64, 64, 3, padding=1) if sys.argv[1] == "conv" else torch.nn.Linear(56, 56)
model.cuda()(x).sum().backward()
"""


@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.parametrize(("layer", "count"), [("conv", 1), pytest.param("linear", 0, marks=pytest.mark.slow)])
def test_benchmark_is_reported(layer: str, count: int, tmp_path: Path) -> None:
    """One line, if there are convolutions."""
    (tmp_path / "train.py").write_text(BENCHMARK)
    said = phantom_run("--gpu", "h100-80gb", "--", tmp_path / "train.py", layer)[1]
    assert said.count("caution: cudnn.benchmark") == count


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_workspaces_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BENCHMARK)
    peaks = []
    for flags in ((), ("--workspaces", "none")):
        code, out, err = phantom_run("--gpu", "h100-80gb", *flags, "--json", "--", tmp_path / "train.py", "conv")
        assert code == 0, err
        report = json.loads(out)
        assert report["benchmarked"]
        peaks.append(report["peak_allocated_bytes"])
    assert peaks[0] - peaks[1] > 64 * 64 * 56 * 56 * 4
