"""What would help, each tried by the same replay: the allocator's settings, padding, a cap, …"""

from collections.abc import Iterator
from dataclasses import dataclass

from coopsim.base.text import count, human
from coopsim.base.types import CoopsimError
from coopsim.run.longrun.causes import Cause
from coopsim.run.longrun.lengths import Length
from coopsim.run.longrun.play import PEAK_ALLOCATED, PEAK_RESERVED
from coopsim.run.longrun.run import Card, LongRun

_SETTINGS = (
    "expandable_segments:True",
    "garbage_collection_threshold:0.8",
    *(f"max_split_size_mb:{mb}" for mb in (64, 256, 512)),
    "roundup_power2_divisions:8",
)
_PADDED = (8, 64, 128)
_EMPTIED = 10


@dataclass(frozen=True)
class TriedRemedy:
    """A remedy and its replay on the card.

    kind: "setting" of the allocator, "padding", "cap" or "empty_cache".

    fits: memory did not run out; else it did at step `failed_at`. retries: how often the allocator gave back its cache
    to go on, which takes time.
    """

    kind: str
    what: str
    fits: bool
    failed_at: int | None
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    retries: int

    def __str__(self) -> str:
        fits = "fits" if self.fits else f"runs out at step {self.failed_at}"
        retries = f", cache given back {count(self.retries, 'time')}" if self.retries else ""
        return f"{self.what}: {fits}, {human(self.peak_reserved_bytes)} reserved{retries}"


def tried(run: LongRun, card: Card, cause: Cause) -> Iterator[TriedRemedy]:
    """Try what may help against that cause, one by one: lengths cannot mend a leak, settings no input that is too long.

    The allocator's settings are added to the script's own.
    """
    if cause != "leak":
        for setting in _SETTINGS:
            yield _try(run, card, "setting", setting, conf=",".join(filter(None, [run.recorded.conf, setting])))
        yield _try(run, card, "empty_cache", f"torch.cuda.empty_cache() every {_EMPTIED} steps", empties=_EMPTIED)
        if run.book.axes.columns:
            for multiple in _PADDED:
                found = _padded(run, card, multiple)
                if found is not None:
                    yield found
    if cause == "longer input":
        cap = _cap(run, card)
        if cap is not None:
            yield cap


def _try(run: LongRun, card: Card, kind: str, what: str, **how: object) -> TriedRemedy:
    played = run.play(card, **how)  # type: ignore[arg-type]
    peaks = played.bytes.max(axis=0)
    at = len(played.bytes) if played.failed else None
    return TriedRemedy(
        kind, what, at is None, at, int(peaks[PEAK_ALLOCATED]), int(peaks[PEAK_RESERVED]), played.retries
    )


def _padded(run: LongRun, card: Card, multiple: int) -> TriedRemedy | None:
    """Lengths rounded up, at most to the longest; None if they are so already, or if what these take is not known."""
    most = tuple(max(sizes) for sizes in zip(*run.lengths, strict=True))

    def pad(length: Length) -> Length:
        return tuple(min(-(-n // multiple) * multiple, m) for n, m in zip(length, most, strict=True))

    if all(pad(length) == length for length in set(run.lengths)):
        return None
    try:
        return _try(run, card, "padding", f"lengths padded to multiples of {multiple}", change=pad)
    except CoopsimError:
        return None


def _cap(run: LongRun, card: Card) -> TriedRemedy | None:
    """The largest cap of the length with which the run fits, of the lengths that occur; None if there is none."""
    if len(run.book.axes.columns) != 1:
        return None
    caps = sorted({length[0] for length in run.lengths})
    low, high = 0, len(caps) - 1  # without a cap, which is caps[-1], it does not fit
    best: TriedRemedy | None = None
    while low < high:
        middle = (low + high) // 2
        cap = caps[middle]
        found = _try(run, card, "cap", f"lengths cut at {cap}", change=lambda length, cap=cap: (min(length[0], cap),))
        if found.fits:
            best, low = found, middle + 1
        else:
            high = middle
    return best
