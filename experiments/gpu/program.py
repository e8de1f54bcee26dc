"""A training step as a program that can be run again: every op with its arguments, and the bytes that it starts from.

The trace of a step says which storages an op touches; to run the op again takes its other arguments and the shapes
in which it sees the storages, too. This recorder keeps both. Views need no op of their own: an argument is named by
storage, offset, sizes and strides.
"""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from coopsim.base.types import CoopsimError
from coopsim.record.observe import assemble
from coopsim.record.observe.costs import OpCostModel
from coopsim.record.observe.device import Device
from coopsim.record.observe.recorder import Recorder
from coopsim.record.observe.recording import Op, Recording
from coopsim.record.observe.steady import Steady
from coopsim.record.observe.storages import Storage
from coopsim.trace import Trace


@dataclass(frozen=True)
class Spec:
    """A tensor on the device: how it lies in its storage. `storage` is the trace's number; -1: it has no bytes."""

    storage: int
    offset: int  #: in elements
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Call:
    """An op of the trace, with arguments in which a Spec stands for each tensor on the device."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[Spec, ...]


@dataclass(frozen=True)
class StepProgram:
    """A recorded step.

    calls: one an op of the trace. initial: by storage, its bytes when the step starts, on the host (those that the
    step looks at). final: the same when it has ended, of what is there then. generator: the state of the device's
    generator of random numbers at the start.
    """

    trace: Trace
    calls: tuple[Call, ...]
    initial: dict[int, torch.Tensor]
    final: dict[int, torch.Tensor]
    generator: torch.Tensor


@dataclass
class _Held:
    """A tensor of a call, while it runs: its metadata from before, its storage known after."""

    tensor: torch.Tensor
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True)
class _Named:
    """As Spec, with the recorder's storage."""

    storage: Storage | None
    spec: Spec


@dataclass
class _Raw:
    func: Any
    args: Any
    kwargs: Any
    results: list[_Named] = field(default_factory=list)


def map_values(value: Any, kinds: type | tuple[type, ...], change: Callable[[Any], Any]) -> Any:
    """The same nest of lists, tuples and dictionaries with `change` done to what is of these kinds."""
    if isinstance(value, kinds):
        return change(value)
    if isinstance(value, dict):
        return {key: map_values(v, kinds, change) for key, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map_values(v, kinds, change) for v in value)
    return value


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage of a tensor, as bytes."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


class ProgramRecorder(Recorder):
    """Records what the trace needs, and the arguments of every op."""

    def __init__(self, device: Device, model: OpCostModel, kind: str) -> None:
        super().__init__(device, model)
        self.raw: dict[int, _Raw] = {}
        self.initial: dict[Storage, torch.Tensor] = {}
        self._seen: set[Storage] = set()
        self._made: set[Storage] = set()
        self._kind = kind

    def _record(self, to: Recording, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        number = to.dispatched
        held = map_values((args, kwargs), torch.Tensor, self._hold)
        out = super()._record(to, func, args, kwargs)
        kept = next((e for e in reversed(to.events) if isinstance(e, Op)), None)
        if kept is None or kept.number != number:
            return out
        self._made.update(kept.creates)
        named = map_values(held, _Held, self._name)
        raw = self.raw[number] = _Raw(func, *named)
        for tensor in _tensors(out):
            if tensor.device.type == self._kind:
                raw.results.append(self._name(self._hold(tensor)))
        return out

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._recording is not None:
            for tensor in [*_tensors(args), *_tensors(list(kwargs.values()))]:
                self._keep_start(tensor)
        return super()._call(func, args, kwargs)

    def _keep_start(self, tensor: torch.Tensor) -> None:
        """The bytes of a storage that was there at the start, when an op first looks at it: unchanged until then."""
        if tensor.device.type != self._kind or self._recording is None:
            return
        storage = self.ledger.of(tensor)
        if storage is None or storage in self._seen:
            return
        self._seen.add(storage)
        if storage not in self._made:  # by the step itself
            self.initial[storage] = as_bytes(tensor).to("cpu", copy=True)

    def _hold(self, tensor: torch.Tensor) -> Any:
        if tensor.device.type != self._kind:
            return tensor.clone()
        return _Held(tensor, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))

    def _name(self, held: _Held) -> _Named:
        spec = Spec(-1, held.offset, held.shape, held.stride, held.tensor.dtype)
        return _Named(self.ledger.of(held.tensor), spec)

    def final(self) -> dict[Storage, torch.Tensor]:
        """The bytes, now, of the storages that are alive and were operands.

        They are looked for among the program's tensors: a reference to each storage, even a weak one, would keep
        autograd from adding to gradients in place.
        """
        found: dict[Storage, torch.Tensor] = {}
        for tensor in _alive(self._kind):
            storage = self.ledger.of(tensor)
            if storage in self._seen and storage not in found:
                found[storage] = as_bytes(tensor).to("cpu", copy=True)
        return found


def _alive(kind: str) -> list[torch.Tensor]:
    """The tensors on the device that Python knows, and their gradients."""
    known = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor) and one.device.type == kind]
    return known + [one.grad for one in known if one.is_leaf and one.grad is not None]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def record(
    build: Callable[[], Callable[[], object]],
    device: Device,
    cost_model: OpCostModel,
    kind: str,
    generator: torch.Generator,
    *,
    warmup: int = 2,
) -> StepProgram:
    """Build a program, run it `warmup` times and record the next step. `kind`: the device's, "cuda" or "cpu".

    CoopsimError if the step has an op that cannot be run again.
    """
    with ProgramRecorder(device, cost_model, kind) as recorder:
        step = build()
        for _ in range(warmup):
            step()
        recorder.where.install()
        steady = Steady(recorder)
        state = generator.get_state()
        step()
        recording, _ = steady.stop()
        history = device.history.stop()
        recorder.where.remove()
    trace = assemble.assemble(recording, history, {})
    final = recorder.final()
    ops = [event for event in recording.events if isinstance(event, Op)]
    number = {s: i for i, s in enumerate([*recording.start, *(s for op in ops for s in op.creates)])}

    def spec(named: _Named) -> Spec:
        return named.spec if named.storage is None else replace(named.spec, storage=number[named.storage])

    calls = []
    for op in ops:
        if op.number not in recorder.raw:
            raise CoopsimError(f"{op.name} cannot be run again: it is no op of PyTorch's dispatcher")
        raw = recorder.raw[op.number]
        args, kwargs = map_values((raw.args, raw.kwargs), _Named, spec)
        calls.append(Call(raw.func, args, kwargs, tuple(map(spec, raw.results))))
    heirs = {s: h for s, h in enumerate(trace.becomes.tolist()) if h >= 0}
    return StepProgram(
        trace=trace,
        calls=tuple(calls),
        initial={number[s]: data for s, data in recorder.initial.items()},
        final={heirs[number[s]]: data for s, data in final.items() if number.get(s) in heirs},
        generator=state,
    )
