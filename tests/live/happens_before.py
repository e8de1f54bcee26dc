"""What a GPU's streams do with memory, in the order of the calls: is it ordered whatever the timing, and what is read?

The log is the phantom GPU's (COOPSIM_PHANTOM_LOG=1) with lines of a program's own among it:

    op KIND STREAM READS WRITES     addresses and bytes, as 0x10:64,0x50:64 or -
    value NAME ADDRESS              the program wants to know what is there
    mark TEXT

A value is what made it: the kind of the op and the values that it has read. If nothing is found, every run of these
calls on a card reads the values that the log's order gives.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Clock = dict[int, int]  #: by stream, how many of its works are known to be done, or to come before
Range = tuple[int, int]  #: address and bytes

_CALL = re.compile(r"phantom: (\w+)\((.*)\)(.*)")
GARBAGE = "garbage"


@dataclass(frozen=True)
class _Access:
    low: int
    high: int
    stream: int
    number: int
    writes: bool
    what: str


@dataclass
class Checked:
    """What came of a log. faults: one line each. values: by name. calls: how many there were, by name."""

    faults: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)


class Checker:
    """Reads a log line by line."""

    def __init__(self) -> None:
        self.found = Checked()
        self._streams: dict[int, Clock] = {}
        self._host: Clock = {}  # what the host knows to be done, which comes before all that it starts from now on
        self._events: dict[int, Clock] = {}
        self._accesses: list[_Access] = []
        self._contents: dict[int, tuple[int, str]] = {}  # by address: bytes, value
        self._mark = ""

    def read(self, lines: Iterable[str]) -> Checked:
        """Read lines, and return what was found in all so far."""
        for line in lines:
            call = _CALL.match(line)
            if call is not None and "not ready" not in call[3]:
                self.found.calls[call[1]] = self.found.calls.get(call[1], 0) + 1
                self._call(call[1], [_number(text) for text in call[2].split(", ") if text])
            elif line.startswith("op "):
                self._op(*line.split()[1:])
            elif line.startswith("value "):
                _, name, address = line.split()
                self.found.values[name] = self._contents.get(int(address, 16), (0, GARBAGE))[1]
            elif line.startswith("mark "):
                self._mark = line.strip().removeprefix("mark ")
        return self.found

    def _call(self, name: str, given: list[int]) -> None:
        match name, given:
            case "cudaEventRecord", [event, stream]:
                self._events[event] = dict(self._after(stream))
            case "cudaStreamWaitEvent", [stream, event]:
                _join(self._after(stream), self._events.get(event, {}))
            case "cudaEventDestroy", [event]:
                self._events.pop(event, None)
            case (("cudaEventSynchronize" | "cudaEventQuery"), [event]):
                _join(self._host, self._events.get(event, {}))
            case (("cudaStreamSynchronize" | "cudaStreamQuery"), [stream]):
                _join(self._host, self._after(stream))
            case ("cudaDeviceSynchronize", []) | ("cudaFree", [_]):
                for clock in self._streams.values():
                    _join(self._host, clock)
            case "cudaMemcpyAsync", [to, source, nbytes, stream]:
                value = self._at((source, nbytes))
                self._work(stream, [(source, nbytes)], [(to, nbytes)], "a copy")
                self._contents[to] = nbytes, value
            case "cudaMemsetAsync", [to, nbytes, stream]:
                self._work(stream, [], [(to, nbytes)], "a fill")
                self._contents[to] = nbytes, "zeros"

    def _op(self, kind: str, stream: str, reads: str, writes: str) -> None:
        read, written = list(_ranges(reads)), list(_ranges(writes))
        values = [self._at(one) for one in read]
        if GARBAGE in values:
            self._fault(f"{kind} reads what nothing has written")
        self._work(int(stream), read, written, kind)
        for i, (address, nbytes) in enumerate(written):
            digest = hashlib.blake2b(repr((kind, values, i)).encode(), digest_size=8).hexdigest()
            self._contents[address] = nbytes, f"{kind}:{digest}"

    def _after(self, stream: int) -> Clock:
        """The clock of a stream, with what the host knows."""
        clock = self._streams.setdefault(stream, {})
        _join(clock, self._host)
        return clock

    def _at(self, one: Range) -> str:
        nbytes, value = self._contents.get(one[0], (one[1], GARBAGE))
        return value if nbytes == one[1] else GARBAGE

    def _work(self, stream: int, reads: list[Range], writes: list[Range], what: str) -> None:
        """Something is given to a stream: nothing that it conflicts with may be under way."""
        clock = self._after(stream)
        number = clock[stream] = clock.get(stream, 0) + 1
        for ranges, are_written in ((reads, False), (writes, True)):
            for address, nbytes in ranges:
                self._access(_Access(address, address + nbytes, stream, number, are_written, what), clock)
        for address, nbytes in writes:
            for other in [a for a, (n, _) in self._contents.items() if a < address + nbytes and address < a + n]:
                del self._contents[other]

    def _access(self, new: _Access, clock: Clock) -> None:
        kept = []
        for old in self._accesses:
            if old.high <= new.low or new.high <= old.low or not (old.writes or new.writes):
                kept.append(old)
                continue
            if clock.get(old.stream, 0) < old.number:
                does = "writes" if new.writes else "reads"
                self._fault(
                    f"{new.what} on {new.stream} {does} {new.low:#x} while {old.what} on {old.stream} may use it"
                )
            if not (new.writes and new.low <= old.low and old.high <= new.high):
                kept.append(old)
        self._accesses = [*kept, new]

    def _fault(self, text: str) -> None:
        self.found.faults.append(f"{self._mark}: {text}")


def _join(clock: Clock, other: Clock) -> None:
    for stream, number in other.items():
        clock[stream] = max(clock.get(stream, 0), number)


def _number(text: str) -> int:
    return 0 if text == "(nil)" else int(text, 16 if text.startswith("0x") else 10)


def _ranges(text: str) -> Iterator[Range]:
    for one in text.split(",") if text != "-" else ():
        address, nbytes = one.split(":")
        yield int(address, 16), int(nbytes)
