"""Ways to fine-tune, as docs/fine-tuning.md has them; and ops of libraries that take them back when Python exits."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT

from .command import report_of

pytestmark = pytest.mark.usefixtures("phantom_gpu")
TUNE = ROOT / "examples" / "finetune.py"
SMALL = ("--model", "tiny", "--length", "32", "--new", "4")

TAKEN_BACK = """
import torch
library = torch.library.Library("mine", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x + x, "CUDA")
layer = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    layer(torch.randn(64, 256, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
kept = [torch.ops.mine.twice(torch.ones(1 << 20, device="cuda")) for _ in range(4)]
library._destroy()
"""


def test_ops_of_a_library_that_is_gone_at_the_end(tmp_path: Path) -> None:
    """bitsandbytes' ops are, as all that are defined by torch.library: their names are asked for after the script."""
    (tmp_path / "own.py").write_text(TAKEN_BACK)
    report = report_of("--", tmp_path / "own.py")
    assert report["outcome"] == "ok"
    assert report["peak_by_kind"]["parameters"] == (256 * 256 + 256) * 4


@pytest.mark.slow
def test_preferences_with_adapters() -> None:
    report = report_of("--", TUNE, "dpo", *SMALL)
    assert (report["outcome"], report["steps"]) == ("ok", 3)
    rank, hidden, layers, keys = 32, 64, 2, 32
    adapters = layers * (2 * rank * hidden + rank * (hidden + keys)) * 4
    assert report["peak_by_kind"]["optimizer_state"] == 2 * adapters


@pytest.mark.slow
@pytest.mark.parametrize("method", ["full", "lora", "qlora", "grpo"])
@pytest.mark.parametrize("more", [(), ("--checkpointing",)])
def test_every_method_trains(method: str, more: tuple[str, ...]) -> None:
    if method == "qlora" and not find_spec("bitsandbytes"):
        pytest.skip("4-bit layers are bitsandbytes'")
    assert report_of("--", TUNE, method, *SMALL, *more)["steps"] == 3
