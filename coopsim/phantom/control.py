"""The stand-in runtime from the inside: for a process that runs on the phantom GPU."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from coopsim.phantom import wheel
from coopsim.phantom.errors import PhantomError

COUNT = 0  #: of `answering`


class Collective(NamedTuple):
    """What NCCL was given to do in an op: for how long, messages of how many bytes, among how many ranks, where."""

    cost_ns: int
    bytes: int
    ranks: int
    stream: int  #: handle


class Control:
    """Questions and orders to the runtime of this process. Raises PhantomError if it is not the stand-in."""

    def __init__(self) -> None:
        soname = f"libcudart.so.{wheel.find().cuda.partition('.')[0]}"
        try:
            library = ctypes.CDLL(soname)
            self._write, self._managed = library.coopsim_phantom_copy, library.coopsim_phantom_managed
            self._answer = library.coopsim_phantom_answer
            self._clear, self._set_total = library.coopsim_phantom_clear, library.coopsim_phantom_set_total
            self._used, self._peak = library.coopsim_phantom_used, library.coopsim_phantom_peak
            self._nccl = library.coopsim_phantom_nccl
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
        self._used.restype = self._peak.restype = self._nccl.restype = self._managed.restype = ctypes.c_uint64

    @property
    def functions(self) -> tuple[Any, Any, Any]:
        """`op_begins`, `op_ends` and `clear`, for whoever calls them from C."""
        return self.op_begins, self._op_ends, self._clear

    def clear(self, address: int, nbytes: int) -> None:
        """Make device memory read as zeros again."""
        self._clear(address, nbytes)

    def write(self, address: int, source: int, nbytes: int) -> None:
        """Write the host's bytes at `source` to device memory, if they are no more than a copy may be (phantom.h)."""
        self._write(address, source, nbytes)

    @contextmanager
    def answering(self, nbytes: int, value: int, times: int = 1) -> Iterator[None]:
        """Inside, on this thread, the first reads of so many bytes (at most 8) that nobody has written give `value`.

        nbytes COUNT: of an op's own counter, which has 4 or 8 bytes.
        """
        self._answer(nbytes, value, times)
        try:
            yield
        finally:
            self._answer(0, 0, 0)

    def set_total(self, nbytes: int) -> None:
        """Give the card this much memory from now on. What is allocated stays."""
        self._set_total(nbytes)

    def op_ends(self, stream: int, cost_ns: int) -> None:
        """After `op_begins()`, and the op: its kernels take so long on the stream of that handle."""
        self._op_ends(stream, cost_ns)

    def collective(self) -> Collective | None:
        """NCCL's work on this thread since the last `op_begins()`, or since this was asked, if there was any."""
        found = [ctypes.c_uint64() for _ in Collective._fields]
        self._collective(*map(ctypes.byref, found))
        return Collective(*(int(one.value) for one in found)) if found[2].value else None

    def host_is_busy(self, ns: int) -> None:
        """The host's clock goes on by so much."""
        self._host(ns)

    @property
    def now_ns(self) -> int:
        """The host's clock."""
        return int(self._now())

    def stream_end_ns(self, stream: int) -> int:
        """When the stream of that handle will have done all that it was given, by the host's clock."""
        return int(self._stream_end(stream))

    @property
    def used_bytes(self) -> int:
        """What is taken of the card's memory, the context included."""
        return int(self._used())

    @property
    def peak_bytes(self) -> int:
        """The most that was ever taken."""
        return int(self._peak())

    @property
    def managed_bytes(self) -> int:
        """The most managed memory (cudaMallocManaged) there was. It moves between host and card, and fills neither."""
        return int(self._managed())

    @property
    def nccl_bytes(self) -> int:
        """What NCCL's communicators took of the card for themselves."""
        return int(self._nccl())


def expect_watchdogs(number: int) -> None:
    """So many of NCCL's watchdogs are there, or soon will be: they look by the phantom's clock (csrc/watchdog.c)."""
    expect = getattr(ctypes.CDLL(None), "coopsim_watchdogs_expect", None)
    if expect is not None:
        expect(number)
