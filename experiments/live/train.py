"""Training steps of a reference model with Adam, that know of no budget. At its end: what the last steps took.

    python experiments/live/train.py MODEL [checkpoint|selective]

checkpoint: torch.utils.checkpoint around every block. selective: the same, with the results of matrix products and
convolutions kept.
"""

import functools
import importlib
import json
import sys
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from coopsim.capture import models

STEPS, WARM = 6, 3
#: The class of the repeated block, in transformers.models; of U-Net, each pair of convolutions.
BLOCKS = {
    "gpt-2": ("gpt2.modeling_gpt2", "GPT2Block"),
    "bert-large": ("bert.modeling_bert", "BertLayer"),
    "swin-t": ("swin.modeling_swin", "SwinLayer"),
    "resnet-50": ("resnet.modeling_resnet", "ResNetBottleNeckLayer"),
    "llama-1.1b": ("llama.modeling_llama", "LlamaDecoderLayer"),
    "unet": (None, "Sequential"),
}
_PRODUCTS = [
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.baddbmm.default,
    torch.ops.aten.convolution.default,
]


def around(block: type[nn.Module], **options: Any) -> None:
    """From now on blocks of a class keep their inputs only. Of containers, those that begin with a convolution."""
    plain = block.forward

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self, nn.Sequential) and not isinstance(self[0], nn.Conv2d):
            return plain(self, *args, **kwargs)
        return checkpoint(plain, self, *args, use_reentrant=False, **options, **kwargs)

    block.forward = forward  # type: ignore[method-assign]


def main(name: str, how: str = "plain") -> None:
    """Train, and print the most bytes allocated and reserved in the steps after the first."""
    module, block = BLOCKS[name]
    if how != "plain":
        found = getattr(importlib.import_module(f"transformers.models.{module}") if module else nn, block)
        keep = {"context_fn": functools.partial(create_selective_checkpoint_contexts, _PRODUCTS)}
        around(found, **(keep if how == "selective" else {}))
    torch.manual_seed(0)
    model = models.get(name)
    step = model.build(model.setting(optimizer="adam"))
    for i in range(STEPS):
        if i == WARM:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        step()
    print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
