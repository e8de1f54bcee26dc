"""Query and control the stand-in runtime, from within a process that runs on the phantom GPU."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from coopsim.base.errors import PhantomError
from coopsim.cards import wheel

COUNT = 0  #: of `answering`


class Collective(NamedTuple):
    """The work that an op gave to NCCL: its cost in ns, the bytes of its messages, its ranks, and its stream."""

    cost_ns: int
    bytes: int
    ranks: int  #: how many take part
    stream: int  #: the handle of the stream


class Control:
    """The interface of the stand-in runtime of this process. Raises PhantomError if the process has a real one."""

    def __init__(self) -> None:
        soname = f"libcudart.so.{wheel.find().cuda.partition('.')[0]}"
        try:
            library = ctypes.CDLL(soname)
            self._write, self._managed = library.coopsim_phantom_copy, library.coopsim_phantom_managed
            self._answer = library.coopsim_phantom_answer
            self._clear, self._set_total = library.coopsim_phantom_clear, library.coopsim_phantom_set_total
            self._used, self._peak = library.coopsim_phantom_used, library.coopsim_phantom_peak
            self._nccl, self._context = library.coopsim_phantom_nccl, library.coopsim_phantom_context
            self._now, self._host = library.coopsim_phantom_now, library.coopsim_phantom_host
            self._stream_end = library.coopsim_phantom_stream_end
            self._collective = library.coopsim_phantom_collective
            self.op_begins, self._op_ends = library.coopsim_phantom_op_begins, library.coopsim_phantom_op_ends
        except (OSError, AttributeError):
            raise PhantomError(f"this process does not run on the phantom GPU ({soname} is not coopsim's)") from None
        self._clear.argtypes, self._clear.restype = [ctypes.c_void_p, ctypes.c_size_t], None
        self._write.argtypes, self._write.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], None
        self._answer.argtypes, self._answer.restype = [ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int], None
        self._set_total.argtypes, self._set_total.restype = [ctypes.c_uint64], None
        self.op_begins.restype = None
        self._op_ends.argtypes, self._op_ends.restype = [ctypes.c_void_p, ctypes.c_uint64], None
        self._collective.argtypes, self._collective.restype = [ctypes.POINTER(ctypes.c_uint64)] * 4, None
        self._host.argtypes, self._host.restype = [ctypes.c_uint64], None
        self._now.restype = ctypes.c_uint64
        self._stream_end.argtypes, self._stream_end.restype = [ctypes.c_void_p], ctypes.c_uint64
        for bytes_of in (self._used, self._peak, self._nccl, self._context, self._managed):
            bytes_of.restype = ctypes.c_uint64

    @property
    def functions(self) -> tuple[Any, Any, Any]:
        """The C functions behind `op_begins`, `op_ends` and `clear`, for callers in C."""
        return self.op_begins, self._op_ends, self._clear

    def clear(self, address: int, nbytes: int) -> None:
        """Zero `nbytes` of device memory."""
        self._clear(address, nbytes)

    def write(self, address: int, source: int, nbytes: int) -> None:
        """Copy `nbytes` of host memory at `source` to device memory; nothing if that is more than phantom.h allows."""
        self._write(address, source, nbytes)

    @contextmanager
    def answering(self, nbytes: int, value: int, times: int = 1) -> Iterator[None]:
        """Within the context, let this thread's first reads of `nbytes` (at most 8) unwritten bytes give `value`.

        COUNT instead of a number of bytes is for an op's own counter, of 4 or 8 bytes.
        """
        self._answer(nbytes, value, times)
        try:
            yield
        finally:
            self._answer(0, 0, 0)

    def set_total(self, nbytes: int) -> None:
        """Set the card's memory, from now on. What is allocated remains so."""
        self._set_total(nbytes)

    def op_ends(self, stream: int, cost_ns: int) -> None:
        """Add the time of an op's kernels to a stream, by its handle; to be called after `op_begins()` and the op."""
        self._op_ends(stream, cost_ns)

    def collective(self) -> Collective | None:
        """Return NCCL's work on this thread since the last `op_begins()` or call of this; None if there was none."""
        found = [ctypes.c_uint64() for _ in Collective._fields]
        self._collective(*map(ctypes.byref, found))
        return Collective(*(int(one.value) for one in found)) if found[2].value else None

    def host_is_busy(self, ns: int) -> None:
        """Advance the host's clock."""
        self._host(ns)

    @property
    def now_ns(self) -> int:
        """The time by the host's clock."""
        return int(self._now())

    def stream_end_ns(self, stream: int) -> int:
        """Return the time by the host's clock at which the stream with this handle will have finished its work."""
        return int(self._stream_end(stream))

    @property
    def used_bytes(self) -> int:
        """The bytes of the card's memory in use, the context included."""
        return int(self._used())

    @property
    def peak_bytes(self) -> int:
        """The maximum of `used_bytes` so far."""
        return int(self._peak())

    def reserve(self) -> None:
        """Reserve the addresses of the device's memory, if they are not: the first allocation does so, too."""
        self._context()

    @property
    def context_bytes(self) -> int:
        """The bytes of the card that the context takes by now: it grows with the libraries that are used."""
        return int(self._context())

    @property
    def managed_bytes(self) -> int:
        """The peak of managed memory (cudaMallocManaged), which migrates between host and card, and is in neither."""
        return int(self._managed())

    @property
    def nccl_bytes(self) -> int:
        """The bytes of the card that NCCL's communicators have allocated."""
        return int(self._nccl())


def _of_cudnn(variable: str) -> int:
    try:
        return ctypes.c_int64.in_dll(ctypes.CDLL("libcudnn.so.9"), variable).value
    except (OSError, ValueError):
        return 0


def convolutions() -> int:
    """Return how many kinds of convolution this process has asked the stand-in cuDNN for; 0 if it is not loaded."""
    return _of_cudnn("coopsim_phantom_convolutions")


def left_out() -> int:
    """Return the bytes of the largest workspace that this process has asked of cuDNN where these are left out."""
    return _of_cudnn("coopsim_phantom_left_out")


def expect_watchdogs(number: int) -> None:
    """Tell the phantom how many NCCL watchdogs there are, or soon will be; they run by its clock (csrc/watchdog.c)."""
    expect = getattr(ctypes.CDLL(None), "coopsim_watchdogs_expect", None)
    if expect is not None:
        expect(number)


@cache
def is_phantom() -> bool:
    """Return whether this process runs on the phantom GPU, for as long as it lives."""
    try:
        Control()
    except PhantomError:
        return False
    return True
