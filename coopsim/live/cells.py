"""The storages of a running step, the versions of their contents, and the calls that made these."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Protocol

import torch

_TENSOR, _STRIDED = torch.Tensor, torch.strided
_PLAIN = int, float, bool


class Cell:
    """A storage of the program. An op that changes its bytes in place makes its next version.

    gone: whether its memory was evicted. held: by version, a storage with the bytes of it: a copy of ours, or the
    program's own, referenced for longer than the program does. makers: by version, the call that made it. made_again:
    whether its memory comes from an op that was run again. number: of the storage in the plan's trace, -1 without
    a plan. pinned: whether the program knows its address, so that it must not move. streams: the CUDA streams of the
    ops that used it, where there are several. touched: when it was used last, as a number of ops since the step began.
    """

    __slots__ = (
        "__weakref__",
        "gone",
        "held",
        "key",
        "made_again",
        "makers",
        "nbytes",
        "number",
        "pinned",
        "ref",
        "streams",
        "touched",
        "version",
    )

    def __init__(self, storage: torch.UntypedStorage | None, nbytes: int = 0, number: int = -1) -> None:
        """storage: None if it does not exist any more; then `nbytes` is its size in bytes."""
        self.ref: Callable[[], torch.UntypedStorage | None] = _gone if storage is None else _reference(storage)
        self.key: int = storage._cdata if storage is not None else 0  #: of the storage, for as long as it lives
        self.nbytes: int = storage.nbytes() if storage is not None else nbytes
        self.number = number
        self.version = 0
        self.gone = False
        self.held: dict[int, torch.UntypedStorage] = {}
        self.makers: dict[int, Call] = {}
        self.made_again = False
        self.pinned = False
        self.touched = 0
        self.streams: set[Any] = set()


def _gone() -> None:
    return None


#: Before PyTorch 2.10 the objects that stand for storages may outlive Python's use of them, and come back.
OBJECTS_RETURN = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10)


def _reference(storage: torch.UntypedStorage) -> Callable[[], torch.UntypedStorage | None]:
    found = weakref.ref(storage)
    return partial(_back_in_use, found) if OBJECTS_RETURN else found


def _back_in_use(found: Callable[[], torch.UntypedStorage | None]) -> torch.UntypedStorage | None:
    storage = found()
    if storage is not None:
        storage._fix_weakref()  # type: ignore[attr-defined]
    return storage


Value = tuple[Cell, int]  #: a version of a storage's bytes


class Spec:
    """Stands for a tensor on the device in the arguments of a kept call. cell: None for a tensor without bytes."""

    __slots__ = ("cell", "dtype", "offset", "size", "stride")

    def __init__(self, cell: Cell | None, tensor: torch.Tensor) -> None:
        self.cell, self.dtype, self.offset = cell, tensor.dtype, tensor.storage_offset()
        self.size, self.stride = tensor.size(), tensor.stride()

    def on(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """A tensor of this shape, stride, offset and type on `storage`."""
        blank = torch.empty(0, dtype=self.dtype, device=storage.device)
        return blank.set_(storage, self.offset, self.size, self.stride)


class Kept(Protocol):
    """A call whose arguments the observer keeps, in compiled code."""

    handle: int

    def run(self, operands: list[torch.UntypedStorage | None], most: int) -> list[torch.UntypedStorage | None]:
        """Run the call again on the storages of its operands; return those of its results, at most `most`."""


@dataclass(slots=True, eq=False)
class Call:
    """A call of an op in this step, with all that it takes to run it again.

    kept: set if the observer keeps the arguments; then `operands` has the cells of the operands, by position. cost: in
    ns where the op was recorded, else in bytes read and written.
    """

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    reads: list[Value] = field(default_factory=list)
    mutates: list[Cell] = field(default_factory=list)
    writes: list[Value] = field(default_factory=list)
    results: list[Cell | None] = field(default_factory=list)  #: by position, of the device's tensors among the results
    generator: torch.Generator | None = None
    state: torch.Tensor | None = None  #: the generator's, before the op drew from it
    gradients: bool = False  #: were gradients enabled? some kernels ask
    cost: int = 0
    kept: Kept | None = None
    operands: list[Cell | None] = field(default_factory=list)

    def made(self, results: list[int], writes: Iterable[tuple[int, int]], cells: dict[int, Cell]) -> None:
        """Enter what the call made, as it was followed by plan; with it the call becomes the maker of its `writes`.

        results: numbers of storages, -1 for none. writes: (number of the storage, version). cells: by number.
        """
        self.results = [cells.get(s) for s in results]
        self.writes = [(cells[s], v) for s, v in writes]
        self.cost = sum(cell.nbytes for cell, _ in (*self.reads, *self.writes))
        for cell, version in self.writes:
            cell.makers[version] = self


@cache
def can_start_again(func: Any) -> bool:
    """Whether an op can be run again after it ran out of memory.

    An op that changes a list of tensors cannot: it may have changed some of them.
    """
    written = (a for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    return not any("[]" in str(a.type) for a in written)


def change(value: Any, kind: type, to: Callable[[Any], Any]) -> Any:
    """A copy of nested lists, tuples and dictionaries in which `to` replaces each value of type `kind`."""
    if isinstance(value, kind):
        return to(value)
    if type(value) in (list, tuple):
        if value and type(value[0]) in _PLAIN and type(value[-1]) in _PLAIN:
            return value  # sizes and the like
        return type(value)([change(v, kind, to) for v in value])
    if isinstance(value, dict):
        return {key: change(v, kind, to) for key, v in value.items()}
    return value


def on_device(kind: str, values: Any) -> list[torch.Tensor]:
    """The strided tensors on devices of type `kind` ("cuda" or "cpu") in an op's arguments or results, in order.

    Lists and tuples are searched, at any depth.
    """
    return list(_on_device(kind, values))


def _on_device(kind: str, values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.device.type == kind and value.layout is torch.strided:
                yield value
        elif isinstance(value, list | tuple):
            yield from _on_device(kind, value)


def elsewhere(kind: str, values: Any) -> bool:
    """Whether an op's arguments name other devices only than `kind`, so that its results are not on it either.

    False if there is no tensor among them.
    """
    found = list(_placed(values))
    tensors = [value for value in found if isinstance(value, torch.Tensor)]
    devices = [tensor.device for tensor in tensors] + [value for value in found if isinstance(value, torch.device)]
    return bool(tensors) and all(device.type != kind for device in devices)


def _placed(values: Any) -> Iterator[torch.Tensor | torch.device]:
    for value in values:
        if isinstance(value, torch.Tensor | torch.device):
            yield value
        elif isinstance(value, list | tuple):
            yield from _placed(value)


def given_on(kind: str, values: Any) -> list[torch.Tensor]:
    """The same as `on_device`, in less time, as it runs for every op of a planned step."""
    found: list[torch.Tensor] = []
    _collect(kind == "cuda", values, found)
    return found


def _collect(cuda: bool, values: Any, found: list[torch.Tensor]) -> None:
    for value in values:
        if isinstance(value, _TENSOR):
            if (value.is_cuda if cuda else value.is_cpu) and value.layout is _STRIDED:
                found.append(value)
        elif isinstance(value, (list, tuple)):
            _collect(cuda, value, found)
