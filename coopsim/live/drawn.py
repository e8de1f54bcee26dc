"""The states of the generators that an op may draw random numbers from, so that each run of it draws the same."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from typing import Any

import torch


class Draws(IntEnum):
    """What an op may draw from. OWN: the generators among its arguments, else its device's. ANY: all there are."""

    NOTHING = 0
    OWN = 1
    ANY = 2


@cache
def draws(func: Any) -> Draws:
    """What an op may draw from. PyTorch's ops say so; what others do, nobody knows."""
    if func.namespace != "aten":
        return Draws.ANY
    return Draws.OWN if torch.Tag.nondeterministic_seeded in func.tags else Draws.NOTHING


class Drawn:
    """States of generators, as they were before an op ran."""

    __slots__ = ("_states",)

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self._states = [(generator, generator.get_state()) for generator in generators]

    def restore(self) -> None:
        """Set the generators back."""
        for generator, state in self._states:
            generator.set_state(state)

    @contextmanager
    def again(self) -> Iterator[None]:
        """A context in which the op draws what it drew then; afterwards the generators are where they are now."""
        now = Drawn([generator for generator, _ in self._states])
        self.restore()
        try:
            yield
        finally:
            now.restore()


def before(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], device_type: str) -> Drawn | None:
    """The states before an op runs, on devices of type `device_type`; None for one that draws nothing."""
    what = draws(func)
    if not what:
        return None
    given = [*args, *kwargs.values()]
    own = [value for value in given if isinstance(value, torch.Generator)]
    if what is Draws.ANY:
        own += [torch.default_generator, *(_on_gpus() if device_type == "cuda" else ())]
    return Drawn(own or [_default(given, device_type)])


def _default(given: Sequence[Any], device_type: str) -> torch.Generator:
    if device_type != "cuda":
        return torch.default_generator
    devices = (value.device if isinstance(value, torch.Tensor) else value for value in given)
    found = next((d.index for d in devices if isinstance(d, torch.device) and d.type == "cuda"), None)
    return _on_gpus()[torch.cuda.current_device() if found is None else found]


def _on_gpus() -> tuple[torch.Generator, ...]:
    return torch.cuda.default_generators
