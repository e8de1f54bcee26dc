"""What the context takes: an H100's readings, and cards of which there are none."""

import csv

import pytest

from coopsim.cards import profiles
from coopsim.cards.context import ContextReading, Readings, assumed, of
from coopsim.run import memory
from tests.conftest import ROOT, Runner

MIB = 1 << 20
H100 = ROOT / "experiments/gpu/results/nvidia-h100-80gb-hbm3-2026-11-26"
PROGRAM = """
import torch
found = []
def outside():
    free, total = torch.cuda.mem_get_info()
    found.append((total - free - torch.cuda.memory_reserved()) / 2**20)
torch.zeros(1, device="cuda"); outside()
a = torch.randn(1024, 1024, device="cuda"); a @ a; outside()
a.bfloat16() @ a.bfloat16(); outside()
c = torch.nn.Conv2d(3, 64, 3).cuda(); c(torch.randn(8, 3, 64, 64, device="cuda")).sum().backward(); outside()
m = torch.nn.TransformerEncoderLayer(512, 8, batch_first=True).cuda(); o = torch.optim.AdamW(m.parameters())
m(torch.randn(4, 128, 512, device="cuda")).sum().backward(); o.step(); outside()
with torch.autocast("cuda", torch.bfloat16):
    m(torch.randn(4, 128, 512, device="cuda")).sum().backward(); o.step()
outside()
torch.linalg.svd(a); outside()
torch.fft.fft(a); outside()
from coopsim.phantom.control import Control
answer([found, Control().context_bytes / 2**20])
"""


def test_it_grows_as_on_a_card(on_phantom: Runner) -> None:
    """The stand-in libraries take what the card's take, each at its first use: to a MiB."""
    with (H100 / "context.csv").open(encoding="utf-8", newline="") as file:
        readings = [float(row["outside_mib"]) for row in csv.DictReader(file)]
    with_2_11 = profiles.get("h100-80gb").context_with("2.11.0", "13.0").variables()
    variables = {f"COOPSIM_PHANTOM_{name}": str(nbytes) for name, nbytes in with_2_11.items()}
    found, context = on_phantom(PROGRAM, "h100-80gb", **variables)
    assert found == pytest.approx(readings, abs=1)
    assert context == found[-1]


def test_training_with_another_torch() -> None:
    """The readings of live.json, of examples/train.py with 2.13: 686.8 MiB; 2.14 is taken to be like it."""
    card = profiles.get("h100-80gb")
    for version, off in (("2.13.0", 10), ("2.14.1", 80)):
        context = card.context_with(version, "13.0")
        assert context.training_bytes == 720175104
        assert context.off_by_bytes == off * MIB
        assert context.with_libraries(["cublaslt"]) == 686620672
    assert card.context_with("2.11.0", "13.0").training_bytes == pytest.approx(751 * MIB, abs=MIB)
    assert card.context_with("2.6.0", "12.4") == card.context_with("", "") or card.context_with("", "")


def test_cards_without_readings() -> None:
    like = profiles.get("h200").context_with("2.13.0", "13.0")
    assert like.training_bytes == 720175104
    assert like.basis.startswith("assumed, after the NVIDIA H100 80GB HBM3's")
    assert profiles.get("rtx-3060").context == assumed(160 * MIB)


def test_the_nearest_readings() -> None:
    def one(torch: str, cuda: str, first: int, **more: int) -> Readings:
        readings = [ContextReading((), first), *(ContextReading((name,), first + n) for name, n in more.items())]
        return Readings(torch, cuda, "", tuple(readings))

    every = one("2.6.0", "12.4", 400, cublas=40, cufft=8), one("2.14.1", "13.0", 600, cublas=60)
    assert of(every, "2.11.0", "13.0").first_bytes == 600
    assert of(every, "2.11.0", "12.8").first_bytes == 400  # of the same CUDA
    assert of(every, "", "").first_bytes == 600  # the newest
    newest = of(every, "2.14.0", "13.0")
    assert (newest.grows["cublas"], newest.grows["cufft"], newest.grows["cudnn"]) == (60, 8, 0)
    assert of(every, "2.14.0", "13.0", scale=0.5, card="B").first_bytes == 300


def test_verdicts_near_the_edge() -> None:
    """They say how well the context is known, only if need and memory are nearer than that."""
    context = assumed(200 * MIB)
    assert (
        memory.of_context(1000 * MIB, 1090 * MIB, context)
        == "; what the CUDA context takes is known to ±100 MiB (assumed)"
    )
    assert memory.of_context(1090 * MIB, 1000 * MIB, context)
    assert memory.of_context(1000 * MIB, 1110 * MIB, context) == ""
