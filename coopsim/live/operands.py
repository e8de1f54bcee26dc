"""The tensors among an op's arguments and results, and what an op is like: what it makes, draws and may repeat.

So that each run of an op draws the same random numbers, the states of generators are kept from before its first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from typing import Any

import torch

from coopsim.record.observe import effects
from coopsim.record.observe.torch_private import DisableAutocast, DisableTorchDispatch, DispatchBelowAutograd

_TENSOR, _STRIDED = torch.Tensor, torch.strided
_PLAIN = int, float, bool


class Repeats(IntEnum):
    """When an op can be run again, and do what it would have done. FAILED: only after it ran out of memory."""

    NEVER = 0
    FAILED = 1
    ALWAYS = 2


@cache
def repeats(func: Any) -> Repeats:
    """When an op can be run again.

    One that changes its operands cannot after it has run. If it changes a list of tensors it cannot after an error
    either, as it may have changed some; nor can one that is not PyTorch's, which may have changed anything.
    """
    changed = {name for names in effects.rule(func) for name in names}
    if not changed:
        return Repeats.ALWAYS
    lists = any("[]" in str(a.type) or "List[" in str(a.type) for a in func._schema.arguments if a.name in changed)
    return Repeats.NEVER if lists or func.namespace != "aten" else Repeats.FAILED


def change(value: Any, type_: type, to: Callable[[Any], Any]) -> Any:
    """A copy of nested lists, tuples and dictionaries in which `to` replaces each value of type `type_`."""
    if isinstance(value, type_):
        return to(value)
    if type(value) in (list, tuple):
        if value and type(value[0]) in _PLAIN and type(value[-1]) in _PLAIN:
            return value  # sizes and the like
        return type(value)([change(v, type_, to) for v in value])
    if isinstance(value, dict):
        return {key: change(v, type_, to) for key, v in value.items()}
    return value


def on_device(device_type: str, values: Any) -> list[torch.Tensor]:
    """The strided tensors on devices of type `device_type` ("cuda", say) in an op's arguments or results, in order.

    Lists and tuples are searched, at any depth. It runs for every op, so it asks for no device's name.
    """
    found: list[torch.Tensor] = []
    _collect(f"is_{device_type}", values, found)
    return found


def _collect(is_there: str, values: Any, found: list[torch.Tensor]) -> None:
    for value in values:
        if isinstance(value, _TENSOR):
            if getattr(value, is_there) and value.layout is _STRIDED:
                found.append(value)
        elif isinstance(value, (list, tuple)):
            _collect(is_there, value, found)


def elsewhere(device_type: str, values: Any) -> bool:
    """Whether an op's arguments name other devices only than `device_type`, so that its results are not on it either.

    False if there is no tensor among them.
    """
    found = list(_placed(values))
    tensors = [value for value in found if isinstance(value, torch.Tensor)]
    devices = [tensor.device for tensor in tensors] + [value for value in found if isinstance(value, torch.device)]
    return bool(tensors) and all(device.type != device_type for device in devices)


def not_on(device_type: str, values: Any) -> list[torch.Tensor]:
    """The tensors in `values` and in their lists that are on other devices than those of type `device_type`."""
    return [one for one in _placed(values) if isinstance(one, torch.Tensor) and one.device.type != device_type]


def _placed(values: Any) -> Iterator[torch.Tensor | torch.device]:
    for value in values:
        if isinstance(value, torch.Tensor | torch.device):
            yield value
        elif isinstance(value, list | tuple):
            yield from _placed(value)


def changes_only(func: Any) -> bool:
    """Whether an op makes nothing: it changes its operands, or gives views of them."""
    return all(r.alias_info is not None for r in func._schema.returns)


def result_bytes(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device_type: str, given: Sequence[torch.Tensor]
) -> int:
    """The bytes of an op's results on devices of type `device_type` ("cuda" or "cpu"), by a run on the device `meta`.

    given: its operands on the device. Where it cannot run on `meta`, the bytes of the largest operand.
    """

    def bare(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != device_type:
            return tensor
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")

    def there(device: torch.device) -> torch.device:
        return torch.device("meta") if device.type == device_type else device

    try:
        with DisableTorchDispatch(), DispatchBelowAutograd(), DisableAutocast():
            plain = change(args, torch.Tensor, bare), change(kwargs, torch.Tensor, bare)
            named = change(plain[1], torch.device, there)
            if not given:
                named["device"] = torch.device("meta")
            out = func(*plain[0], **named)
    except Exception:  # sizes that hang on data, ops without a formula: what the largest operand has is the guess
        return max((t.untyped_storage().nbytes() for t in given), default=0)
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in on_device("meta", (out,))}.values())


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


def drawn_before(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], device_type: str) -> Drawn | None:
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
