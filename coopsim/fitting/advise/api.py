"""Try allocator settings on recorded requests, those that users are commonly advised to try, and give advice."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from coopsim.base.alloc_conf import EXPANDABLE
from coopsim.base.types import CoopsimError
from coopsim.fitting.advise.failure import Failure, at_request, peak_row
from coopsim.simulate.allocators.caching.conf import parse
from coopsim.simulate.allocators.caching.device import CUDA
from coopsim.simulate.allocators.caching.trial import Trial, attempt, smallest
from coopsim.simulate.allocators.caching.version import VERSIONS, find
from coopsim.trace.requests import Requests
from coopsim.trace.snapshot.model import Snapshot

_SPLITS = (32, 64, 128, 256, 512, 1024, 2048)
#: Simple ones first: of equally good settings, the first is recommended.
CANDIDATES = (
    EXPANDABLE,
    *(f"garbage_collection_threshold:{x}" for x in (0.9, 0.8, 0.6)),
    *(f"max_split_size_mb:{mb}" for mb in _SPLITS),
    *(f"roundup_power2_divisions:{n}" for n in (1, 2, 4, 8, 16)),
    *(f"large_segment_size_mb:{mb}" for mb in (64, 128, 256, 512)),
    *(f"max_split_size_mb:{mb},garbage_collection_threshold:0.8" for mb in _SPLITS),
    *(f"max_split_size_mb:{mb},roundup_power2_divisions:8" for mb in (128, 256, 512)),
    "max_split_size_mb:256,max_non_split_rounding_mb:128",
    "max_split_size_mb:512,max_non_split_rounding_mb:512",
    "expandable_segments:True,roundup_power2_divisions:8",
    "expandable_segments:True,garbage_collection_threshold:0.8",
)


def candidates(torch: str) -> list[str]:
    """Return the candidates that a version of PyTorch supports."""
    rules = find(torch)
    taken = []
    for conf in CANDIDATES:
        try:
            parse(conf, rules)
        except CoopsimError:
            continue
        taken.append(conf)
    return taken


Verdict = Literal["fits", "fits with other settings", "does not fit"]


@dataclass(frozen=True)
class Advice:
    """The advice for recorded requests in `total_bytes` of memory.

    as_recorded: the trial with the recorded settings. trials: one per candidate, with the same version of PyTorch, the
    best first. versions: one per version, with the recorded settings. recommended: the recorded settings if they fit,
    else the best that do, None if none does. smallest_bytes: the smallest memory with the recorded settings, and with
    the recommended ones. smallest_expandable_bytes: the smallest with expandable segments alone; None if some settings
    fit. failure: the state of memory when it ran out, or at its peak.
    """

    total_bytes: int
    as_recorded: Trial
    failure: Failure
    trials: tuple[Trial, ...]
    versions: tuple[Trial, ...]
    recommended: Trial | None
    smallest_bytes: tuple[int, int | None]
    smallest_expandable_bytes: int | None

    @property
    def verdict(self) -> Verdict:
        """Whether the requests fit, and with which settings."""
        if self.recommended is None:
            return "does not fit"
        return "fits" if self.as_recorded.fits else "fits with other settings"

    @property
    def more_bytes(self) -> int:
        """The bytes that are missing with the recorded settings or with expandable segments; 0 if some settings fit."""
        if self.recommended is not None:
            return 0
        return min(self.smallest_bytes[0], self.smallest_expandable_bytes or self.smallest_bytes[0]) - self.total_bytes


def advise(
    requests: Requests,
    *,
    torch: str,
    conf: str,
    total_bytes: int,
    snapshot: Snapshot | None = None,
    tick: Callable[[], None] = lambda: None,
) -> Advice:
    """Try all candidates and versions on the requests, in `total_bytes` of memory, and return the advice.

    `torch` and `conf`: the recorded version and settings. `snapshot`: the one that the requests are from; its stacks
    show what a loop keeps. `tick` is called after each trial, at most `count` times.

    A candidate is better if it fits; then if it never had to free its cache to make room; then if it makes at most half
    as many calls to the device, which are the cost of settings; then if it reserves less. Of equals, the first in
    CANDIDATES is better.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:

        def run(version: str, settings: str) -> Trial:
            trial = attempt(requests, version, settings, total_bytes, CUDA)
            tick()
            return trial

        first = run(torch, conf)
        others = [c for c in candidates(torch) if c != conf]
        trials = list(pool.map(lambda c: run(torch, c), [*([""] if conf else []), *others]))
        versions = list(pool.map(lambda v: run(v, conf), [v for v in VERSIONS if v != torch]))
    order = {trial.conf: i for i, trial in enumerate(trials)}
    best = sorted(
        trials,
        key=lambda t: (not t.fits, t.retries > 0, t.device_calls.bit_length(), t.peak_reserved_bytes, order[t.conf]),
    )
    recommended = first if first.fits else next((t for t in best if t.fits), None)
    row = first.failed_at
    at = row if row is not None else peak_row(requests, torch=torch, conf=conf, total_bytes=total_bytes)
    return Advice(
        total_bytes=total_bytes,
        as_recorded=first,
        failure=at_request(
            requests,
            at,
            torch=torch,
            conf=conf,
            total_bytes=total_bytes,
            failed=row is not None,
            snapshot=snapshot,
        ),
        trials=tuple(best),
        versions=tuple(sorted([*versions, first], key=lambda t: list(VERSIONS).index(t.torch))),
        recommended=recommended,
        smallest_bytes=(
            smallest(requests, torch, conf, driver=CUDA),
            smallest(requests, torch, recommended.conf, driver=CUDA) if recommended else None,
        ),
        smallest_expandable_bytes=None if recommended else smallest(requests, torch, EXPANDABLE, driver=CUDA),
    )


def count(torch: str) -> int:
    """Return the largest number of trials for a version of PyTorch."""
    return len(candidates(torch)) + len(VERSIONS) + 1
