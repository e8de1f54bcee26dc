"""Recompute blocks in the backward pass, by the same calls as in the lines to paste."""

import functools
import operator
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from coopsim.fitting.changes import Changes
from coopsim.record.observe import torch_private

_config: Any = torch_private.get("torch._functorch.config")  #: of AOTAutograd's partitioner


def install(changes: Changes, number: int, model: nn.Module) -> None:
    """Let a model, number `number`, recompute the blocks that `changes` name in it, if any.

    To be called before the model's first call.
    """
    names, plain = (changes.of_model(number, every) for every in (changes.checkpoint, changes.plain))
    if names:
        own = changes.own and all(hasattr(model.get_submodule(name), "gradient_checkpointing") for name in names)
        apply(model, names, own=own, save=changes.save, plain=plain)


def apply(
    model: nn.Module, names: tuple[str, ...], *, own: bool, save: tuple[str, ...] = (), plain: tuple[str, ...] = ()
) -> None:
    """Let a model recompute its modules `names` in the backward pass.

    own: by the model's gradient_checkpointing_enable, instead of wrappers.

    save: ops whose results are kept nevertheless, except in the modules `plain`, which requires wrappers.
    """
    options: dict[str, Any] = {}
    if save:
        ops = [operator.attrgetter(name)(torch.ops) for name in save]
        options = {"context_fn": functools.partial(create_selective_checkpoint_contexts, ops)}
    chosen = {model.get_submodule(name) for name in names}
    if own:
        _unwrapped(model).gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False} | options
        )
        for module in model.modules():
            if getattr(module, "gradient_checkpointing", False) and module not in chosen:
                module.gradient_checkpointing = False  # type: ignore[assignment]
        return
    wholly = {model.get_submodule(name) for name in plain}
    wrapping = torch_private.get("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")
    wrapper = functools.partial(wrapping.checkpoint_wrapper, **options)
    if wholly:
        wrapping.apply_activation_checkpointing(model, check_fn=lambda module: module in wholly)
    wrapping.apply_activation_checkpointing(model, wrapper, check_fn=lambda module: module in chosen - wholly)


def without_cache(model: nn.Module) -> None:
    """Set `use_cache` to False in the config of every module that has one, as training does not use the cache."""
    for module in model.modules():
        if hasattr(module, "config"):
            module.config.use_cache = False  # type: ignore[union-attr]


def _unwrapped(model: Any) -> Any:
    while not hasattr(model, "gradient_checkpointing_enable"):
        model = model._modules.get("module") or model._modules["_orig_mod"]
    return model


class Partitioner:
    """Sets activation_memory_budget to `budget` before each graph is compiled; None leaves the script's.

    `own`: the values that the script itself had set, other than PyTorch's default, each once.
    """

    def __init__(self, budget: float | None) -> None:
        self._budget = budget
        self.own: list[float] = []

    def set(self) -> None:
        """Set the budget, and note the value that the script had set; the caller calls it before each compilation."""
        found = _config.activation_memory_budget
        if found not in (1.0, self._budget, *self.own):
            self.own.append(found)
        if self._budget is not None:
            _config.activation_memory_budget = self._budget
