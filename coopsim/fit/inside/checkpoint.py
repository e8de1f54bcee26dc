"""Blocks that are recomputed, by what a user would paste."""

import functools
import operator
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from coopsim.fit.changes import Changes
from coopsim.observe import torch_private


def install(changes: Changes, number: int, model: nn.Module) -> None:
    """Before the first call of a model."""
    if number == changes.root:
        apply(model, changes.checkpoint, own=changes.own, save=changes.save, plain=changes.plain)


def apply(
    model: nn.Module, names: tuple[str, ...], *, own: bool, save: tuple[str, ...] = (), plain: tuple[str, ...] = ()
) -> None:
    """Recompute the modules named. own: by the model's own means.

    save: ops whose results are kept all the same, but for the modules in plain, which the own means cannot tell apart.
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
    """Models of transformers keep no keys and values, which training does not look at again."""
    for module in model.modules():
        if hasattr(module, "config"):
            module.config.use_cache = False  # type: ignore[union-attr]


def _unwrapped(model: Any) -> Any:
    while not hasattr(model, "gradient_checkpointing_enable"):
        model = model._modules.get("module") or model._modules["_orig_mod"]
    return model
