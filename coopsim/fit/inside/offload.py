"""Let blocks save what their backward pass needs in the host's memory, by the same calls as in the lines to paste."""

from torch import nn

from coopsim.fit.changes import Changes
from coopsim.observe import torch_private


def install(changes: Changes, number: int, model: nn.Module) -> None:
    """Wrap the blocks that `changes` name in a model, number `number`, if any; to be called before its first call."""
    chosen = {model.get_submodule(name) for name in changes.of_model(number, changes.on_host)}
    if chosen:
        wrapping = torch_private.get("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")
        wrapping.apply_activation_checkpointing(model, wrapping.offload_wrapper, check_fn=lambda m: m in chosen)
