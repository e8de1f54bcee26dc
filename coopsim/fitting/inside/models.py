"""Find the models of a script: modules with parameters that it calls itself, and not from within another module."""

import sys
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks

from coopsim.record.observe.torch_private import current_graph_task_id
from coopsim.run.probes.places import is_own

_FAMILIES = {"transformers", "peft", "diffusers"}


class Models:
    """Follows calls of modules by global hooks. Models are numbered in the order of their first calls.

    The functions in `on_first_call` are called with the number and the model before its first call; those in `around`
    with the model before every call (and True), and after it (and False). Those in `inputs` are called with a model's
    number and the positional arguments of every call, and return those that it gets.
    """

    def __init__(self) -> None:
        self.models: list[nn.Module] = []
        self.on_first_call: list[Callable[[int, nn.Module], None]] = []
        self.around: list[Callable[[nn.Module, bool], None]] = []
        self.inputs: list[Callable[[int, tuple[Any, ...]], tuple[Any, ...]]] = []
        self._depth = 0
        self._known: dict[int, int] = {}
        self._found: list[dict[str, Any]] = []
        hooks.register_module_forward_pre_hook(self._enter)  # type: ignore[arg-type] # a hook may return other inputs
        hooks.register_module_forward_hook(self._leave, always_call=True)

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if current_graph_task_id() != -1:  # recomputed by a backward pass
            return None
        self._depth += 1
        if self._depth == 1 and self._is_model(module):
            if id(module) not in self._known:
                self._known[id(module)] = len(self.models)
                self.models.append(module)
                self._found.append(_describe(module))
                for call in self.on_first_call:
                    call(len(self.models) - 1, module)
            for around in self.around:
                around(module, True)
        if self._depth == 1 and id(module) in self._known:
            floats = any(isinstance(a, torch.Tensor) and a.is_floating_point() for a in args)
            self._found[self._known[id(module)]]["floats"] |= floats
        if self._found and self._found[-1]["batch"] is None:
            tensor = next((a for a in args if isinstance(a, torch.Tensor) and a.dim() > 1), None)
            self._found[-1]["batch"] = tensor.size(0) if tensor is not None else None
        if self._depth > 1 or id(module) not in self._known or not self.inputs:
            return None
        for change in self.inputs:
            args = change(self._known[id(module)], args)
        return args

    def _leave(self, module: nn.Module, *_: Any) -> None:
        if current_graph_task_id() != -1:
            return
        self._depth -= 1
        if self._depth == 0 and id(module) in self._known:
            for around in self.around:
                around(module, False)

    def _is_model(self, module: nn.Module) -> bool:
        return any(True for _ in module.parameters())

    def user_s(self, number: int, model: nn.Module) -> nn.Module:
        """Return what the user's name stands for: the model, or what a wrapper that has no name wraps."""
        return model.get_submodule(self._found[number]["prefix"].rstrip("."))

    def number(self, module: nn.Module) -> int | None:
        """Return the number of a model; None if the module is not a model that was called."""
        return self._known.get(id(module))

    def found(self, optimized: Collection[int] = ()) -> list[dict[str, Any]]:
        """Return a dict of fields of survey.ModelSurvey for each model, by number, and whether it is trained.

        `optimized` are the ids of the optimizers' parameters; a model is trained if an optimizer has one of its own. If
        that holds for none, as with an optimizer that keeps copies, models with parameters that require gradients are.
        """
        has = [any(id(p) in optimized for p in model.parameters()) for model in self.models]
        if not any(has):
            has = [any(p.requires_grad for p in model.parameters()) for model in self.models]
        return [about | {"trained": trained} for about, trained in zip(self._found, has, strict=True)]


def _describe(model: nn.Module) -> dict[str, Any]:
    dtypes = [p.dtype for p in model.parameters() if p.is_floating_point()]
    return {
        "type": type(model).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "batch": None,
        "floats": False,
        "families": sorted({base.__module__.partition(".")[0] for base in type(model).__mro__} & _FAMILIES),
        "half": all(dtype in (torch.float16, torch.bfloat16) for dtype in dtypes),
        "autocast": torch.is_autocast_enabled("cuda"),
        "sharded": any(base.__name__ == "FSDPModule" for base in type(model).__mro__),
        **_named(model),
    }


def _named(model: nn.Module) -> dict[str, str]:
    """Return the user's name for the model: the name in the innermost frame that binds it, wrapped or not.

    Otherwise, as for what a LightningModule calls, the name of a module that contains it, with its path; "" if there is
    none. Names of arguments do not count, as lines pasted where the model is made cannot use them.
    """
    unwrapped = model
    inner = []
    while (name := next((n for n in ("module", "_orig_mod") if n in unwrapped._modules), None)) is not None:
        unwrapped = unwrapped._modules[name]  # type: ignore[assignment]
        inner.append(name)
    wanted = ((model, ""), (unwrapped, "".join(f"{n}." for n in inner)))
    found = (
        {"name": f"{own}.{path}" if path else own, "prefix": prefix, "file": file}
        for file, names in _names()
        for module, prefix in wanted
        for own, value in names.items()
        for path, part in value.named_modules()
        if part is module and (not path or all(step.isidentifier() for step in path.split(".")))
    )
    nothing = {"name": "", "prefix": wanted[1][1], "file": ""}
    return min(found, key=lambda one: "." in one["name"], default=nothing)


def _names() -> Iterator[tuple[str, dict[str, nn.Module]]]:
    """Yield the file of each frame of the user's code, the innermost first, and the modules that it has names for."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            given = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
            found = {**frame.f_globals, **frame.f_locals}.items()
            modules = {own: value for own, value in found if isinstance(value, nn.Module) and own.isidentifier()}
            yield frame.f_code.co_filename, {own: value for own, value in modules.items() if own not in given}
        frame = frame.f_back
