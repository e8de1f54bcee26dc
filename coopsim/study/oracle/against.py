"""A schedule's requests on the real allocator, beside what the simulation says of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from coopsim.base.budget import memory_fraction
from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators import DRIVER
from coopsim.simulate.allocators.caching import case
from coopsim.simulate.allocators.caching.conf import parse
from coopsim.simulate.allocators.caching.device import CUDA
from coopsim.simulate.allocators.caching.trial import smallest
from coopsim.simulate.allocators.caching.version import find
from coopsim.study.oracle.build import Oracle
from coopsim.study.oracle.gpu import Gpu, OracleRecording, RecordedCard
from coopsim.trace.requests import Requests

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

    requests: for memory. equal: how many were answered alike, up to the first that was not. foreseen: the same, of
    whether there was memory, simulated with segments where the rule of the driver puts them; None without a GPU.
    first_refused: the number of the first request that found no memory, None if all did; as simulated, and really.
    statistics: by key of QUANTITIES, simulated and real. refused: the numbers of all that the real one refused.
    recording: what the GPU said, if there was one.
    """

    torch: str
    conf: str
    total_bytes: int
    requests: int
    equal: int
    foreseen: int | None
    first_refused: tuple[int | None, int | None]
    statistics: dict[str, tuple[int, int]]
    refused: tuple[int, ...]
    recording: OracleRecording | None

    @property
    def agrees(self) -> bool:
        """Every answer and every statistic is the same."""
        return self.equal == self.requests and all(a == b for a, b in self.statistics.values())

    @property
    def serves(self) -> bool:
        """The real allocator refused nothing."""
        return self.first_refused[1] is None


def compare(requests: Requests, oracle: Oracle | Gpu | RecordedCard, conf: str, total_bytes: int) -> Comparison:
    """Perform all requests, on both. CoopsimError if torch refuses the settings.

    Of a GPU the segments are recorded, and simulated at the same addresses, so that every answer is to be the same.
    """
    ops = [*requests.lines(), "p"]
    recording, foreseen = None, None
    if isinstance(oracle, Oracle):
        real = oracle.ask(conf, total_bytes, ops)
    else:
        recording = oracle.record(conf, total_bytes, ops)
        real = recording.answers
    if not real or not real[-1].startswith("stats "):
        raise CoopsimError(f"torch {oracle.version} {real[-1] if real else 'said nothing'}")
    if recording is None:
        simulated = list(case.answer(case.AllocatorCase(conf, total_bytes, ops, case.read(ops)), oracle.version))
    else:
        device = recording.device_bytes
        if total_bytes < device:
            ops = [f"F {memory_fraction(total_bytes, device)!r}", *ops]
        asked = case.AllocatorCase(conf, device, ops, case.read(ops))
        simulated = list(case.answer(asked, oracle.version, recording.segments))
        by_rule = _without_addresses(case.answer(asked, oracle.version, driver=CUDA))
        foreseen = _alike(by_rule[:-1], _without_addresses(real)[:-1])
        if parse(conf, find(oracle.version)).expandable_segments:  # reserved address space counts from 0 here
            simulated, real = _without_addresses(simulated), _without_addresses(real)
    read_simulated, read_real = figures(simulated[-1]), figures(real[-1])
    return Comparison(
        torch=oracle.version,
        conf=conf,
        total_bytes=total_bytes,
        requests=len(real) - 1,
        equal=_alike(simulated[:-1], real[:-1]),
        foreseen=foreseen,
        first_refused=(_first_refused(simulated), _first_refused(real)),
        statistics={key: (read_simulated[key], read_real[key]) for key in QUANTITIES},
        refused=tuple(i for i, line in enumerate(real) if line.startswith("oom ")),
        recording=recording,
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


def smallest_card(requests: Requests, oracle: Oracle | Gpu | RecordedCard, conf: str) -> Smallest:
    """Find the smallest card by simulation, to 2 MiB, and ask the real allocator."""
    driver = DRIVER if isinstance(oracle, Oracle) else CUDA
    total = smallest(requests, oracle.version, conf, _STEP, driver)
    return Smallest(conf, total, compare(requests, oracle, conf, total), compare(requests, oracle, conf, total - _STEP))


def _alike(ours: list[str], real: list[str]) -> int:
    """How many lines are the same, up to the first that is not."""
    return next((i for i, (a, b) in enumerate(zip(ours, real, strict=True)) if a != b), len(real))


def _without_addresses(lines: Iterable[str]) -> list[str]:
    return [line.rpartition(" ")[0] if line.startswith("a ") else line for line in lines]


def _first_refused(lines: list[str]) -> int | None:
    return next((i for i, line in enumerate(lines) if line.startswith("oom ")), None)


def figures(line: str) -> dict[str, int]:
    """The figures of a line `stats alloc N peak N …`; a peak by what comes before it."""
    words = line.split()[1:]
    found: dict[str, int] = {}
    last = ""
    for name, value in zip(words[::2], words[1::2], strict=True):
        found[f"{last}.peak" if name == "peak" else name] = int(value)
        last = name
    return found
