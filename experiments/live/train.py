"""Training steps of a model with Adam, that know of no budget. At its end: what the last steps took.

    python experiments/live/train.py MODEL [checkpoint|selective]

MODEL: a reference model, or one of experiments/models.
checkpoint: torch.utils.checkpoint around every block. selective: the same, with the results of matrix products and
convolutions kept.
"""

import functools
import importlib
import json
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from coopsim.record.capture import models

ROOT = Path(__file__).parent.parent.parent
STEPS, WARM = 6, 3
#: The class of the repeated block, in transformers.models; of U-Net, each pair of convolutions.
BLOCKS = {
    "gpt-2": ("gpt2.modeling_gpt2", "GPT2Block"),
    "bert-large": ("bert.modeling_bert", "BertLayer"),
    "swin-t": ("swin.modeling_swin", "SwinLayer"),
    "resnet-50": ("resnet.modeling_resnet", "ResNetBottleNeckLayer"),
    "llama-1.1b": ("llama.modeling_llama", "LlamaDecoderLayer"),
    "unet": (None, "Sequential"),
    "vit-b": ("vit.modeling_vit", "ViTLayer"),
    "t5-base": ("t5.modeling_t5", "T5Block"),
}
_PRODUCTS = [
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.baddbmm.default,
    torch.ops.aten.convolution.default,
]


@contextmanager
def blocks(name: str, how: str) -> Iterator[None]:
    """Inside, the blocks of a model keep their inputs only. Of containers, those that begin with a convolution."""
    module, block = BLOCKS[name]
    kind = getattr(importlib.import_module(f"transformers.models.{module}") if module else nn, block)
    plain = kind.forward
    keep = {"context_fn": functools.partial(create_selective_checkpoint_contexts, _PRODUCTS)}
    options: dict[str, Any] = keep if how == "selective" else {}

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self, nn.Sequential) and not isinstance(self[0], nn.Conv2d):
            return plain(self, *args, **kwargs)
        return checkpoint(plain, self, *args, use_reentrant=False, **options, **kwargs)

    kind.forward = plain if how == "plain" else forward
    try:
        yield
    finally:
        kind.forward = plain


def build(name: str) -> Any:
    """The step of a model that is made now; of a script (SCRIPTS), its own."""
    torch.manual_seed(0)
    if name in SCRIPTS:
        return SCRIPTS[name]()
    own = ROOT / "experiments" / "models" / f"{name.replace('-', '_')}.py"
    model = importlib.import_module(f"experiments.models.{own.stem}").MODEL if own.exists() else models.get(name)
    return model.build(model.setting(optimizer="adam"))


def _language() -> Any:
    """The body of the loop of examples/train.py, in the script's own names."""
    source = (ROOT / "examples" / "train.py").read_text(encoding="utf-8")
    head, loop = source.split("for _ in range(3):\n")
    space: dict[str, Any] = {"__name__": "__main__"}
    with patch.object(sys, "argv", ["train.py"]):
        exec(head, space)  # noqa: S102
    body = compile(textwrap.dedent(loop), "train.py", "exec")
    return lambda: exec(body, space)  # noqa: S102


def _transformer() -> Any:
    """That of experiments/gpu/offload.py, with PyTorch's default attention."""
    from experiments.gpu.offload import build as transformer

    _, step = transformer()
    return step


SCRIPTS = {"examples/train.py": _language, "12-layer transformer": _transformer}  #: by name, what builds a step


def peaks(name: str) -> dict[str, int]:
    """The most bytes allocated and reserved in the steps after the first."""
    step = build(name)
    for i in range(STEPS):
        if i == WARM:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        step()
    return {"allocated_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved()}


def main(name: str, how: str = "plain") -> None:
    """Train, and print what it took."""
    with blocks(name, how):
        print(json.dumps(peaks(name)))


if __name__ == "__main__":
    main(*sys.argv[1:])
