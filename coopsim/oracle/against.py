"""A schedule's requests on the real allocator, beside what the simulation says of them."""

from dataclasses import dataclass

from coopsim.allocators.caching import case
from coopsim.allocators.caching.trial import smallest
from coopsim.oracle.gpu import Gpu
from coopsim.oracle.run import Oracle
from coopsim.requests import Requests
from coopsim.types import CoopsimError

#: What a statistics line names, and what it is for people.
QUANTITIES = {
    "alloc.peak": "peak allocated, bytes",
    "reserved.peak": "peak reserved, bytes",
    "nsegpeak": "segments at the peak",
    "retries": "retries",
    "ooms": "requests refused",
    "ndevalloc": "device allocations",
    "ndevfree": "device frees",
}
_STEP = 2 << 20  #: bytes of the device's pages


@dataclass(frozen=True)
class Comparison:
    """Requests on one card, simulated and real.

    requests: for memory. equal: how many were answered alike, up to the first that was not. first_refused: the number
    of the first request that found no memory, None if all did; as simulated, and really. statistics: by key of
    QUANTITIES, simulated and real.
    """

    torch: str
    conf: str
    total_bytes: int
    requests: int
    equal: int
    first_refused: tuple[int | None, int | None]
    statistics: dict[str, tuple[int, int]]

    @property
    def agrees(self) -> bool:
        """Every answer and every statistic is the same."""
        return self.equal == self.requests and all(a == b for a, b in self.statistics.values())

    @property
    def serves(self) -> bool:
        """The real allocator refused nothing."""
        return self.first_refused[1] is None


def compare(requests: Requests, oracle: Oracle | Gpu, conf: str, total_bytes: int) -> Comparison:
    """Perform all requests, on both. CoopsimError if torch refuses the settings.

    On a GPU, whose addresses are its own, an answer is that there was memory, or that there was none.
    """
    ops = [*requests.lines(), "p"]
    simulated = list(case.answer(case.Case(conf, total_bytes, ops, case.read(ops)), oracle.version))
    real = oracle.ask(conf, total_bytes, ops)
    if isinstance(oracle, Gpu):
        simulated, real = _without_addresses(simulated), _without_addresses(real)
    if not real or not real[-1].startswith("stats "):
        raise CoopsimError(f"torch {oracle.version} {real[-1] if real else 'said nothing'}")
    *answers, last = zip(simulated, real, strict=True)
    differing = (i for i, (a, b) in enumerate(answers) if a != b)
    read_simulated, read_real = _statistics(last[0]), _statistics(last[1])
    return Comparison(
        torch=oracle.version,
        conf=conf,
        total_bytes=total_bytes,
        requests=len(answers),
        equal=next(differing, len(answers)),
        first_refused=(_first_refused(simulated), _first_refused(real)),
        statistics={key: (read_simulated[key], read_real[key]) for key in QUANTITIES},
    )


@dataclass(frozen=True)
class Smallest:
    """The smallest card that serves requests: as simulated, what the real allocator does on it, and 2 MiB below."""

    conf: str
    total_bytes: int
    at: Comparison
    below: Comparison

    @property
    def confirmed(self) -> bool:
        """The real allocator serves everything there, and not below."""
        return self.at.serves and not self.below.serves and self.at.agrees and self.below.agrees


def smallest_card(requests: Requests, oracle: Oracle | Gpu, conf: str) -> Smallest:
    """Find the smallest card by simulation, to 2 MiB, and ask the real allocator."""
    total = smallest(requests, oracle.version, conf, _STEP)
    return Smallest(conf, total, compare(requests, oracle, conf, total), compare(requests, oracle, conf, total - _STEP))


def _without_addresses(lines: list[str]) -> list[str]:
    return [line.rpartition(" ")[0] if line.startswith("a ") else line for line in lines]


def _first_refused(lines: list[str]) -> int | None:
    return next((i for i, line in enumerate(lines) if line.startswith("oom ")), None)


def _statistics(line: str) -> dict[str, int]:
    """The figures of a line `stats alloc N peak N …`; a peak by what comes before it."""
    words = line.split()[1:]
    found: dict[str, int] = {}
    last = ""
    for name, value in zip(words[::2], words[1::2], strict=True):
        found[f"{last}.peak" if name == "peak" else name] = int(value)
        last = name
    return found
