"""Watch what sets batch sizes (TrainingArguments, data loaders) and what adds up gradients; divide batches."""

import inspect
import sys
from types import FrameType, ModuleType
from typing import Any

import torch
from torch.optim import optimizer as hooks

from coopsim.fitting.changes import Changes
from coopsim.record.observe.private import hooked
from coopsim.run.probes.imports import after_import
from coopsim.run.probes.places import is_own

_LIGHTNING = ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer")
_OWN_LINES, _BY_LIBRARY = "lines", ""


class Batches:
    """Records, from its creation on, the calls that set batch sizes; divides these sizes by `changes.divide`."""

    def __init__(self, changes: Changes) -> None:
        self._divide = changes.divide
        self._of_arguments = changes.in_arguments
        self._arguments: list[tuple[Any, dict[str, Any]]] = []  # each with what was noted of it
        self._trained: Any = None
        self._adds_up: dict[str, Any] | None = None
        self._loaders: dict[int, dict[str, Any]] = {}
        self._by_iterator: dict[int, int] = {}
        self._advanced: set[int] = set()
        self._training: set[int] = set()
        after_import("torch.utils.data.dataloader", self._see_loaders)
        after_import("transformers.training_args", self._see_arguments)
        after_import("transformers.trainer", self._see_trainer)
        for name in _LIGHTNING:
            after_import(name, self._see_lightning)
        after_import("accelerate.accelerator", self._see_accelerate)
        hooks.register_optimizer_step_pre_hook(self._steps)

    def _steps(self, *_: Any) -> None:
        self._training |= self._advanced
        self._advanced.clear()

    def _see_loaders(self, module: ModuleType) -> None:
        def init(original: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            bound = inspect.signature(original).bind(loader, *args, **kwargs)
            bound.apply_defaults()
            batch = bound.arguments["batch_size"]
            place = _place(loader)
            if place["by"] and bound.arguments["batch_sampler"] is None and isinstance(batch, int):
                self._loaders[id(loader)] = place | {"batch": batch}
                if self._divide > 1 and not self._of_arguments and batch % self._divide == 0:
                    bound.arguments["batch_size"] = batch // self._divide
            original(*bound.args, **bound.kwargs)

        module.DataLoader.__init__ = hooked(module.DataLoader.__init__, init)

        def iterate(original: Any, loader: Any) -> Any:
            found = original(loader)
            self._by_iterator[id(found)] = id(loader)
            return found

        def advance(original: Any, iterator: Any) -> Any:
            if torch.is_grad_enabled() and id(iterator) in self._by_iterator:
                self._advanced.add(self._by_iterator[id(iterator)])
            return original(iterator)

        loader, iterator = module.DataLoader, module._BaseDataLoaderIter
        loader.__iter__, iterator.__next__ = hooked(loader.__iter__, iterate), hooked(iterator.__next__, advance)

    def _see_arguments(self, module: ModuleType) -> None:
        def post_init(original: Any, arguments: Any) -> None:
            batch, times = arguments.per_device_train_batch_size, arguments.gradient_accumulation_steps
            about = {"batch": batch, "times": times, "half": bool(arguments.fp16 or arguments.bf16)}
            self._arguments.append((arguments, _place(arguments) | about))
            if self._divide > 1 and self._of_arguments:
                arguments.per_device_train_batch_size //= self._divide
                arguments.gradient_accumulation_steps *= self._divide
            original(arguments)

        module.TrainingArguments.__post_init__ = hooked(module.TrainingArguments.__post_init__, post_init)

    def _see_trainer(self, module: ModuleType) -> None:
        def train(original: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
            self._trained = trainer.args
            return original(trainer, *args, **kwargs)

        module.Trainer.train = hooked(module.Trainer.train, train)

    def _see_lightning(self, module: ModuleType) -> None:
        self._accumulating(module.Trainer, "accumulate_grad_batches")

    def _see_accelerate(self, module: ModuleType) -> None:
        def accumulate(original: Any, accelerator: Any, *models: Any) -> Any:
            found = getattr(accelerator, "coopsim_place", None)
            self._adds_up = found or self._adds_up
            return original(accelerator, *models)

        self._accumulating(module.Accelerator, "gradient_accumulation_steps", used=False)
        module.Accelerator.accumulate = hooked(module.Accelerator.accumulate, accumulate)

    def _accumulating(self, owner: Any, argument: str, *, used: bool = True) -> None:
        """Watch a class whose `argument` is the number of batches to add up; used: making it means using it."""

        def init(original: Any, made: Any, *args: Any, **kwargs: Any) -> None:
            bound = inspect.signature(original).bind(made, *args, **kwargs)
            times = bound.arguments.get(argument)
            place = _place(made) | {"argument": argument, "times": times or 1}
            if used and place["by"] and isinstance(place["times"], int):
                self._adds_up = place
            elif not used:
                made.coopsim_place = place
            if self._divide > 1 and not self._of_arguments:
                bound.arguments[argument] = place["times"] * self._divide
            original(*bound.args, **bound.kwargs)

        owner.__init__ = hooked(owner.__init__, init)

    def found(self) -> dict[str, Any]:
        """Return what was recorded, as Given.read expects it; of data loaders, those that training steps read from."""
        loaders = [about for made, about in self._loaders.items() if made in self._training]
        once = {tuple(about.items()): about for about in loaders}
        trained = [about for made, about in self._arguments if made is self._trained]  # a library may make others
        of_all = trained or [about for _, about in self._arguments]
        return {"arguments": of_all[-1] if of_all else None, "loaders": list(once.values()), "adds_up": self._adds_up}


def _place(made: Any) -> dict[str, Any]:
    """Return the type of an object and the user's line that makes it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_globals["__name__"].startswith("coopsim.") or _is_of(frame, made)):
        frame = frame.f_back
    file, line, by = "", 0, _BY_LIBRARY
    if frame is not None and is_own(frame.f_code.co_filename):
        file, line, by = frame.f_code.co_filename, frame.f_lineno, _OWN_LINES
    return {"type": type(made).__name__, "file": file, "line": line, "by": by}


def _is_of(frame: FrameType, made: Any) -> bool:
    """Is the frame a method of the object, or a library's wrapper of one?"""
    names = frame.f_code.co_varnames[: max(frame.f_code.co_argcount, 1)]
    return bool(names) and frame.f_locals.get(names[0]) is made
