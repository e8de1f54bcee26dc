"""The device's data as a recorder goes through a program's ops: what is known, what is assumed, what is read."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from coopsim.phantom.control import COUNT, Control
from coopsim.record.observe import finite
from coopsim.record.observe.data_sizes import UNTAGGED, Sizes
from coopsim.record.observe.decisions import Decisions
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.known import ASSUMED, FINITE, Known
from coopsim.record.observe.masks import Masks
from coopsim.record.observe.native import NativeLedger
from coopsim.record.observe.shares import BEGIN, Shares
from coopsim.record.observe.storages import Ledger

#: PyTorch's own checks inside an op: the first truth value that they read is the answer, and they are to pass.
_CHECKS = frozenset({"aten::repeat_interleave", "aten::linalg_eig", "aten::linalg_eigvals", "aten::_linalg_eigvals"})
#: Of complex matrices it asks only whether the library failed, and the answer is to be false.
_EIGENVALUES = "aten::_linalg_eigvals"
_REPEAT = torch.ops.aten.repeat_interleave.Tensor
_READ = "aten::_local_scalar_dense"
_COPIES = ("aten::_to_copy", "aten::copy_")

#: Names of ops that have to come here, beside those that look at data by their tags.
OPS = _CHECKS | BEGIN | finite.OPS | UNTAGGED | {"aten::arange"}


class DeviceData:
    """Answers what a program reads of the device's data, and follows its ops to know what can be known of these.

    place: returns the line of the script that is running. by_host: whether values that the host gives are known on the
    device. `sizes`: how often an op's size was taken from data that nobody knows, or an op gave such data of a mask to
    the host, by (op, place, Size.by).
    `last_value`: op and place of the last read of a value that nobody knows; None before the first.
    """

    def __init__(
        self, ledger: Ledger | NativeLedger, masks: Masks, place: Callable[[], str], *, by_host: bool = True
    ) -> None:
        self._control, self._place = Control(), place
        self.known = Known(ledger, by_host=by_host)
        self._shares = Shares(ledger, self.known, masks)
        self._sizes = Sizes(self.known, self._shares, masks)
        self.decisions = Decisions()
        self.sizes: Counter[tuple[str, str, str]] = Counter()
        self.last_value: tuple[str, str] | None = None

    @contextmanager
    def asked(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Within the context, in which the op is to be called once, answer what it reads of the device to find a size.

        Yields the keyword arguments to call it with: `kwargs`, to which an output size may have been added.
        """
        name = func._schema.name
        if name in _CHECKS:
            with self._passed(func, args, kwargs) as given:
                yield given
            return
        size = self._sizes.counted(func, args, kwargs)
        if size is not None and size.by and not _prints():
            self.sizes[str(func), self._place(), size.by] += 1
        if name in _COPIES and _gives_to_host(name, args):
            self._shares.spread(args[0] if name == "aten::_to_copy" else args[1])
        if size is None or not size.counted:
            yield kwargs
            return
        with self._control.answering(COUNT, size.counted, size.times):
            yield kwargs

    @contextmanager
    def _passed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if func._schema.name == _EIGENVALUES and args[0].is_complex():
            yield kwargs
            return
        if func is _REPEAT and kwargs.get("output_size") is None and args[0].is_cuda:
            size = self._sizes.total(args[0])
            if size.by:
                self.sizes[str(func), self._place(), size.by] += 1
            kwargs = kwargs | ({"output_size": size.counted} if size.counted else {})
        with self._control.answering(1, 1):
            yield kwargs

    def after(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any, newest: int) -> Any:
        """Follow an op that has run and returned `out`, and return what the program is to get instead: mostly `out`.

        A value that the host reads and nobody knows is replaced (Decisions). `newest`: the ledger's before the op.
        """
        self.known.after(func, args, kwargs, out, newest)
        self._shares.after(func, args, kwargs, out)
        if func._schema.name == _READ and args[0].is_cuda:
            return self._read(func, args[0], out)
        if _looks(func) and args and not (isinstance(out, torch.Tensor) and out.is_cuda):
            self._copied(func, args, out)
        return out

    def _read(self, func: Any, tensor: torch.Tensor, out: Any) -> Any:
        """Return the value of the device that the host gets."""
        known = self.known.has(tensor)
        assumed = known and bool(self.known.rests_on(tensor) & ASSUMED)
        if known and not self.known.rests_on(tensor) & (ASSUMED | FINITE):
            return out
        self._note(func)
        element = None if known else self._shares.keeps(tensor)
        self._given(func, tensor)
        if element is not None:
            flag = self.decisions.flag()
            return type(out)(element if flag is None else flag)
        if tensor.dtype is torch.bool:
            return self.decisions.truth(bool(out), maybe=self._shares.maybe(tensor), assumed=assumed)
        if not known:
            self.decisions.number()
        return out

    def _copied(self, func: Any, args: Any, out: Any) -> None:
        source = args[1] if func._schema.name == "aten::copy_" else args[0]
        if not any(True for _ in tensors(source)):
            return
        if self.known.has(source):
            self._given(func, source)
            return
        self._note(func)
        if not isinstance(out, torch.Tensor):
            return
        if out.numel() > 1 or self._shares.keeps(source) is not None:
            self._mask_copied(func, source, out)
        elif out.dtype is torch.bool and not out.is_pinned():
            out.fill_(self.decisions.truth(bool(out), maybe=self._shares.maybe(source), assumed=False))

    def _mask_copied(self, func: Any, source: torch.Tensor, out: torch.Tensor) -> None:
        """Let the host see what a mask keeps, or, where it waits for flags, what makes it go on."""
        kept = self._shares.kept(source)
        if kept is None:
            return
        flag = self.decisions.flag()
        if flag is not None:
            out.fill_(flag)
            return
        out.copy_(kept)
        self._given(func, source)

    def _given(self, func: Any, tensor: torch.Tensor) -> None:
        """Note that the host gets what unknown masks keep."""
        by = self._sizes.by(tensor) if self.known.has(tensor) else self._shares.by(tensor)
        if by == "masks":
            self.sizes[str(func), self._place(), by] += 1

    def _note(self, func: Any) -> None:
        self._sizes.note_read()
        self.last_value = str(func), self._place()


def _prints() -> bool:
    """Return whether PyTorch is turning a tensor into text: what a mask keeps there decides of nothing else."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != "torch._tensor_str":
        frame = frame.f_back
    return frame is not None


def _gives_to_host(name: str, args: Any) -> bool:
    if name == "aten::_to_copy":
        return isinstance(args[0], torch.Tensor) and args[0].is_cuda
    return isinstance(args[1], torch.Tensor) and args[1].is_cuda and not args[0].is_cuda


def _looks(func: Any) -> bool:
    """Return whether an op may give data to the host."""
    return torch.Tag.data_dependent_output in func.tags or func._schema.name in _COPIES
