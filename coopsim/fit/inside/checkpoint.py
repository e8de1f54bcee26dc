"""Blocks that are recomputed, by what a user would paste."""

from typing import Any

from torch import nn

from coopsim.fit.changes import Changes


def install(changes: Changes, number: int, model: nn.Module) -> None:
    """Before the first call of a model."""
    if number == changes.root:
        apply(model, changes.checkpoint, own=changes.own)


def apply(model: nn.Module, names: tuple[str, ...], *, own: bool) -> None:
    """Recompute the modules named. own: by the model's own means."""
    chosen = {model.get_submodule(name) for name in names}
    if own:
        _unwrapped(model).gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        for module in model.modules():
            if getattr(module, "gradient_checkpointing", False) and module not in chosen:
                module.gradient_checkpointing = False  # type: ignore[assignment]
        return
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

    apply_activation_checkpointing(model, check_fn=lambda module: module in chosen)


def _unwrapped(model: Any) -> Any:
    while not hasattr(model, "gradient_checkpointing_enable"):
        model = model._modules.get("module") or model._modules["_orig_mod"]
    return model
