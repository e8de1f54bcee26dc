"""A training step of a reference model with `torch.utils.checkpoint` around its first blocks; `capture` runs it.

    MODEL=gpt-2 BLOCKS=12 coopsim capture experiments/checkpointing/checkpointed.py:step -o T

BLOCKS=0 is the plain step. Hugging Face's gradient checkpointing puts the same function around the same blocks.
"""

import importlib
import os
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from coopsim.record.capture import models

#: The class of the repeated block, in transformers.models.
BLOCK = {
    "gpt-2": ("gpt2.modeling_gpt2", "GPT2Block"),
    "bert-large": ("bert.modeling_bert", "BertLayer"),
    "swin-t": ("swin.modeling_swin", "SwinLayer"),
    "resnet-50": ("resnet.modeling_resnet", "ResNetBottleNeckLayer"),
}


def around(block: type[nn.Module], first: int) -> None:
    """From now on the first blocks of a class, in the order in which they are first called, keep their inputs only."""
    plain = block.forward
    seen: dict[nn.Module, int] = {}

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if seen.setdefault(self, len(seen)) >= first:
            return plain(self, *args, **kwargs)
        return checkpoint(plain, self, *args, use_reentrant=False, **kwargs)

    block.forward = forward


model = models.get(os.environ["MODEL"])
module, name = BLOCK[model.name]
around(getattr(importlib.import_module(f"transformers.models.{module}"), name), int(os.environ["BLOCKS"]))
step = model.build(model.setting())
