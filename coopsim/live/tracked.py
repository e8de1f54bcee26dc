"""The storages of a running step, the versions of their contents, and the calls that made these."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any, Self

import torch

from coopsim.live import refused, settings
from coopsim.live.observer import Kept
from coopsim.live.operands import Drawn, change
from coopsim.live.plan import Plan, Row
from coopsim.live.settings import Settings
from coopsim.record.observe.torch_private import set_conjugate, set_negative


@dataclass(slots=True, eq=False)
class TrackedStorage:
    """A storage of the program. An op that changes its bytes in place makes its next version.

    storage: None if it does not exist any more; then `nbytes` is its size in bytes. number: of the storage in the
    plan's trace, -1 without a plan. evicted: whether its memory was evicted. held: by version, a storage with the bytes
    of it: a copy of ours, or the program's own, referenced for longer than the program does. makers: by version, the
    call that made it. made_again: whether its memory may come from an op that was run again, or from a copy, in this
    step or an earlier one. pinned: whether the program knows its address, so that it must not move. touched: when it
    was used last, as a number of ops since the step began. streams: the CUDA streams of the ops that used it, where
    there are several.
    """

    storage: InitVar[torch.UntypedStorage | None]
    nbytes: int = 0
    number: int = -1
    version: int = 0
    evicted: bool = False
    held: dict[int, torch.UntypedStorage] = field(default_factory=dict)
    makers: "dict[int, Call]" = field(default_factory=dict)
    made_again: bool = True
    pinned: bool = False
    touched: int = 0
    streams: set[Any] = field(default_factory=set)
    ref: Callable[[], torch.UntypedStorage | None] = field(init=False)
    key: int = field(init=False)  #: of the storage, for as long as it lives

    def __post_init__(self, storage: torch.UntypedStorage | None) -> None:
        if storage is None:
            self.ref, self.key = _gone, 0
        else:
            self.ref, self.key, self.nbytes = reference(storage), storage._cdata, storage.nbytes()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """A context in which the memory is kept in place."""
        pinned, self.pinned = self.pinned, True
        try:
            yield
        finally:
            self.pinned = pinned


def _gone() -> None:
    return None


#: Before PyTorch 2.10 the object that stands for a storage outlives Python's use of it, as the storage owns it then,
#: and the storage itself, as long as anyone has a weak pointer to that: the recorder and the observer do.
_OBJECTS_RETURN = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10)


def reference(storage: torch.UntypedStorage) -> Callable[[], torch.UntypedStorage | None]:
    """What gives the storage for as long as it lives, then None."""
    found = weakref.ref(storage)
    return partial(_back_in_use, found) if _OBJECTS_RETURN else found


def _back_in_use(found: Callable[[], torch.UntypedStorage | None]) -> torch.UntypedStorage | None:
    """Make the object own its storage again. None if the storage is gone: it must not be referred to, and freed, again.

    By the pointer, which PyTorch looks into first; `_fix_weakref` does not.
    """
    storage = found()
    return None if storage is None else torch.UntypedStorage._new_with_weak_ptr(storage._cdata)


Value = tuple[TrackedStorage, int]  #: a version of a storage's bytes


class Spec:
    """Stands for a tensor on the device in the arguments of a kept call. tracked: None for a tensor without bytes.

    conjugate, negative: whether its bytes are of the conjugate or the negative, as PyTorch's views of complex numbers.
    """

    __slots__ = ("conjugate", "dtype", "negative", "offset", "size", "stride", "tracked")

    def __init__(self, tracked: TrackedStorage | None, tensor: torch.Tensor) -> None:
        self.tracked, self.dtype, self.offset = tracked, tensor.dtype, tensor.storage_offset()
        self.size, self.stride = tensor.size(), tensor.stride()
        self.conjugate, self.negative = tensor.is_conj(), tensor.is_neg()

    def on(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """A tensor of this shape, stride, offset and type on `storage`."""
        found = torch.empty(0, dtype=self.dtype, device=storage.device)
        found.set_(storage, self.offset, self.size, self.stride)
        if self.conjugate or self.negative:
            set_conjugate(found, self.conjugate)
            set_negative(found, self.negative)
        return found


@dataclass(slots=True, eq=False)
class Call:
    """A call of an op in this step, with all that it takes to run it again.

    kept: set if the observer keeps the arguments; then `operands` has the tracked storages of the operands, by
    position. settings: by which it ran; None: those of the step's beginning, as all by the observer do.
    """

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reads: list[Value] = field(default_factory=list)
    mutates: list[TrackedStorage] = field(default_factory=list)
    writes: list[Value] = field(default_factory=list)
    results: list[TrackedStorage | None] = field(
        default_factory=list
    )  #: by position, of the device's tensors among the results
    drawn: Drawn | None = None  #: what the op drew from
    gradients: bool = False  #: were gradients enabled? some kernels ask
    settings: Settings | None = None
    kept: Kept | None = None
    operands: list[TrackedStorage | None] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        device_type: str,
        operands: Iterable[TrackedStorage | None],
        drawn: Drawn | None,
    ) -> Self:
        """A call as the program makes it now; what it reads and mutates is left to the caller.

        operands: by position, the tracked storages of the tensors among its arguments that are on the device. drawn:
        the states of the generators before it.
        """
        tracked = iter(operands)

        def spec(tensor: torch.Tensor) -> Any:
            here = tensor.device.type == device_type and tensor.layout is torch.strided
            return Spec(next(tracked), tensor) if here else tensor.detach().clone()

        kept = change(args, torch.Tensor, spec), change(kwargs, torch.Tensor, spec) if kwargs else {}
        return cls(func, *kept, drawn=drawn, gradients=torch.is_grad_enabled(), settings=settings.now())

    def by_plan(self, plan: Plan, row: Row, storages: dict[int, TrackedStorage]) -> None:
        """Enter what the call read, changed and made, as its op was followed by plan. storages: by number."""
        op = row.entry.op
        self.reads = [(storages[s], v) for s, v in plan.program.reads[op]]
        self.mutates = [storages[s] for s in plan.mutates[op] if s in storages]
        written = [(storages[s], v) for s, v in plan.program.writes[op]]
        self.has_made([storages.get(s) for s in row.entry.results], written)

    def has_made(self, results: list[TrackedStorage | None], writes: list[Value]) -> None:
        """Enter what the call made; with it the call becomes the maker of its `writes`."""
        self.results, self.writes = results, writes
        for tracked, version in writes:
            tracked.makers[version] = self

    @property
    def nbytes(self) -> int:
        """The bytes that it takes to run it again, beside what it reads."""
        read = {tracked for tracked, _ in self.reads}
        changed = sum(tracked.nbytes for tracked in self.mutates)
        return changed + sum(tracked.nbytes for tracked in self.results if tracked is not None and tracked not in read)


class TrackedStorages:
    """The tracked storages of a step so far, each found by its storage.

    all: in the order in which they were met, those included whose storages are gone. gpu: of the step, on which all of
    them have to be; None on the CPU.
    """

    def __init__(self, gpu: torch.device | None = None) -> None:
        self.gpu = gpu
        self._by_key: dict[int, TrackedStorage] = {}
        self.all: list[TrackedStorage] = []
        self._there: list[TrackedStorage] = []

    def known(self, storage: torch.UntypedStorage) -> TrackedStorage | None:
        """What tracks a storage; None if it has none yet."""
        tracked = self._by_key.get(storage._cdata)
        return tracked if tracked is not None and tracked.ref() is storage else None

    def of(self, storage: torch.UntypedStorage) -> TrackedStorage:
        """What tracks a storage with bytes, made at first sight. LiveError for one on another GPU."""
        tracked = self.known(storage)
        if tracked is None:
            if self.gpu is not None and storage.device != self.gpu:
                refused.other_gpu(storage.device, self.gpu)
            tracked = self.enter(TrackedStorage(storage))
        return tracked

    def of_tensor(self, tensor: torch.Tensor) -> TrackedStorage | None:
        """What tracks a tensor's storage, made at first sight; None if it has no bytes, or no storage."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a sparse tensor, or one within a transform of torch.func
            return None
        return self.of(storage) if storage.nbytes() else None

    def enter(self, tracked: TrackedStorage) -> TrackedStorage:
        """Let this one track its storage from now on, in place of any that did; return it."""
        self.all.append(tracked)
        self._there.append(tracked)
        if tracked.ref() is not None:
            self._by_key[tracked.key] = tracked
        return tracked

    def let_go(self) -> None:
        """Forget calls and held versions, as nothing is run again: tracked storages and calls refer to each other."""
        for tracked in self.all:
            tracked.makers.clear()
            tracked.held.clear()

    def there(self) -> list[TrackedStorage]:
        """Those whose storages the program still refers to, or of which a version is held."""
        self._there = [t for t in self._there if t.held or ((s := t.ref()) is not None and self.known(s) is t)]
        return self._there


def calls_for(wanted: Iterable[Value], there: Callable[[Value], bool]) -> list[Call] | None:
    """The calls that make these values, each after those that make what it reads; None if one has no call.

    there: whether a value has not to be made, as it is on the device or on the host.
    """
    found: dict[Call, None] = {}
    stack = [(value, False) for value in reversed(list(wanted))]
    while stack:
        value, ready = stack.pop()
        if there(value):
            continue
        call = value[0].makers.get(value[1])
        if call is None:
            return None
        if ready:
            found[call] = None
        elif call not in found:
            stack.append((value, True))
            stack += [(read, False) for read in reversed(call.reads)]
    return list(found)
