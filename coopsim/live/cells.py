"""What is known of the storages of a running step, and of the calls that made what is in them."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

_TENSOR, _STRIDED = torch.Tensor, torch.strided
_PLAIN = int, float, bool
_AGAIN: dict[Any, bool] = {}


class Cell:
    """A storage of the program. An op that changes it in place makes its next version.

    `gone`: its memory was taken. `held`: storages of ours with the bytes of some version, or the program's own, which
    we hold for longer than the program does. `makers`: by version, the call that made it. `made_again`: its memory is
    of an op that was run again. `pinned`: somebody has its address. `streams`: of the ops that used it, where there may
    be several. `touched`: when it was used last, in ops.
    """

    __slots__ = (
        "__weakref__",
        "gone",
        "held",
        "key",
        "made_again",
        "makers",
        "nbytes",
        "pinned",
        "ref",
        "streams",
        "touched",
        "version",
    )

    def __init__(self, storage: torch.UntypedStorage | None, nbytes: int = 0) -> None:
        """storage: None if it is gone already; it had `nbytes`."""
        self.ref: Callable[[], torch.UntypedStorage | None] = _gone if storage is None else weakref.ref(storage)
        self.key: int = storage._cdata if storage is not None else 0  #: of the storage, for as long as it lives
        self.nbytes: int = storage.nbytes() if storage is not None else nbytes
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


Value = tuple[Cell, int]  #: a version of a storage's bytes


class Spec:
    """Stands for a tensor on the device in the arguments of a call. `cell` None: a tensor without bytes."""

    __slots__ = ("cell", "dtype", "offset", "size", "stride")

    def __init__(self, cell: Cell | None, tensor: torch.Tensor) -> None:
        self.cell, self.dtype, self.offset = cell, tensor.dtype, tensor.storage_offset()
        self.size, self.stride = tensor.size(), tensor.stride()

    def on(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """Such a tensor on this storage."""
        blank = torch.empty(0, dtype=self.dtype, device=storage.device)
        return blank.set_(storage, self.offset, self.size, self.stride)


class Kept(Protocol):
    """What the observer has of a call, in place of its arguments."""

    handle: int

    def run(self, operands: list[torch.UntypedStorage | None], most: int) -> list[torch.UntypedStorage | None]:
        """Run it again on storages by position; gives those of its results, of `most` at most."""


@dataclass(slots=True, eq=False)
class Call:
    """An op as this step called it, so that it can be run again.

    kept: the observer has its arguments, and these are the cells of its operands, by position.
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
        """The op has run: what it made, by numbers of its storages."""
        self.results = [cells.get(s) for s in results]
        self.writes = [(cells[s], v) for s, v in writes]
        self.cost = sum(cell.nbytes for cell, _ in (*self.reads, *self.writes))
        for cell, version in self.writes:
            cell.makers[version] = self


def can_start_again(func: Any) -> bool:
    """Has an op that ran out of memory changed nothing? One that goes from tensor to tensor may have changed some."""
    found = _AGAIN.get(func)
    if found is None:
        written = (a for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write)
        found = _AGAIN[func] = not any("[]" in str(a.type) for a in written)
    return found


def change(value: Any, kind: type, to: Callable[[Any], Any]) -> Any:
    """The same nest of lists, tuples and dictionaries, with `to` done to what is of this kind."""
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
    """The tensors on the device in the arguments or results of an op, in order."""
    return list(_on_device(kind, values))


def _on_device(kind: str, values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.device.type == kind and value.layout is torch.strided:
                yield value
        elif isinstance(value, list | tuple):
            yield from _on_device(kind, value)


def elsewhere(kind: str, values: Any) -> bool:
    """Are there tensors among an op's arguments, but none on the device, nor its name? Then it makes none there."""
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
    """The same as on_device, faster."""
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
