"""Run a script on the phantom GPU, and compare its peaks with a limit and a baseline."""

import difflib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from coopsim.base.text import human
from coopsim.run import Report, Script, run, with_other_bound
from coopsim.run.gate.baseline import Baseline, BaselinePeaks, GateLine, at_peak
from coopsim.trace.snapshot.model import read

K = TypeVar("K")

_MOST = 8  #: the most lines of the program that are listed


@dataclass(frozen=True)
class Verdict:
    """The verdict on one run. `failures`: one line of text each; empty if it passes.

    `peaks`: of the run, None if it ran out of memory; `before`: of the baseline, None without one. `notes`: lines on
    changes that are no failure. `numbers`: the number in its file of each line of the program that holds memory.
    """

    name: str
    report: Report
    peaks: BaselinePeaks | None
    before: BaselinePeaks | None
    failures: list[str]
    notes: list[str]
    numbers: dict[GateLine, int]

    @property
    def passed(self) -> bool:
        """Whether there are no failures."""
        return not self.failures


def check(
    script: Script,
    *,
    name: str = "",
    limit: int | None = None,
    baseline: Baseline | None = None,
    update: bool = False,
    allow_no_step: bool = False,
) -> Verdict:
    """Run a script once, and return the verdict.

    name: the run's name in the baseline (default: the command). limit: the most bytes of the card that it may take, the
    context included. baseline: the run's peaks must equal those there, to the byte; with `update` they are put there
    instead, and the caller is to call `Baseline.write`. allow_no_step: a run without an optimizer step may pass. Raises
    CaptureError if the script fails for another reason than memory, PhantomError if the phantom GPU cannot be built.
    """
    name = name or script.title
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        snapshot = Path(folder, "snapshot.pickle")
        report = with_other_bound(script, run(script, snapshot=snapshot))
        lines, numbers = at_peak(read(snapshot)) if snapshot.exists() else ({}, {})
    before = baseline.runs.get(name) if baseline else None
    about_data = [*report.about_masks, *report.cautions]
    if report.outcome == "oom":
        title = report.out_of_memory.title if report.out_of_memory else _title_of_replay(report)
        return Verdict(name, report, None, before, [f"{title}, with {human(report.memory_bytes)}"], about_data, numbers)
    peaks = BaselinePeaks.of(report, lines)
    failures, notes = [], list(about_data)
    if not report.steps and not allow_no_step:
        failures.append("no optimizer stepped, so nothing was trained: --allow-no-step if that is meant")
        return Verdict(name, report, peaks, before, failures, notes, numbers)
    if limit is not None and peaks.device > limit:
        failures.append(
            f"takes {human(peaks.device)} of the card, {human(peaks.device - limit)} more than {human(limit)}"
        )
    if baseline is not None and update:
        baseline.runs[name] = peaks
        if before is None or before.to_json() != peaks.to_json():
            notes.append(f"{baseline.path}: written anew")
    elif baseline is not None and before is None:
        near = difflib.get_close_matches(name, baseline.runs, n=1, cutoff=0.5)
        nearest = f"; the nearest is {near[0]!r}" if near else ""
        failures.append(f"{baseline.path} has no run {name!r}{nearest}; write it with --update")
    elif before is not None:
        failures += _against(before, peaks)
        notes += [f"{k}: {v} was {before.versions.get(k)}" for k, v in peaks.versions.items()
                  if before.versions.get(k) != v]  # fmt: skip
    if failures:
        failures += _grown(before, peaks, numbers)
    return Verdict(name, report, peaks, before, failures, notes, numbers)


def _title_of_replay(report: Report) -> str:
    assert report.replay
    assert report.replay.runs_out
    return f"out of memory at step {report.replay.runs_out.step} of {report.replay.steps}, replayed"


def _against(before: BaselinePeaks, now: BaselinePeaks) -> list[str]:
    """Return one line per figure that differs from the baseline."""
    found = [f"runs on {now.gpu}; the baseline is of {before.gpu}"] if before.gpu != now.gpu else []
    for figure in ("allocated", "reserved"):
        was, is_ = getattr(before, figure), getattr(now, figure)
        if was != is_:
            found.append(f"{figure} at the peak: {is_} bytes, {_difference(is_ - was)} than the {was} of the baseline")
    return found


def _difference(nbytes: int) -> str:
    return f"{human(abs(nbytes))} {'more' if nbytes > 0 else 'less'}"


def _grown(before: BaselinePeaks | None, now: BaselinePeaks, numbers: dict[GateLine, int]) -> list[str]:
    """Return lines that say what holds the memory at the peak, or, with a baseline, what has changed in it."""
    if before is None:
        by_kind = {kind: (nbytes, 0) for kind, nbytes in now.kinds.items()}
        by_line = {line: (nbytes, 0) for line, nbytes in now.lines.items()}
    else:
        by_kind = _changes(before.kinds, now.kinds)
        by_line = _changes(before.lines, now.lines)
    compared = before is not None
    found = [f"  {_shown(*change, compared):>24}  {kind}" for kind, change in by_kind.items()]
    for line, change in list(by_line.items())[:_MOST]:
        number = f"{line.file}:{numbers[line]}: " if numbers.get(line) else ""
        found.append(f"  {_shown(*change, compared):>24}  {number}{line.text or line.title}")
    return found


def _changes(before: dict[K, int], now: dict[K, int]) -> dict[K, tuple[int, int]]:
    """Return (bytes now, bytes before) of the keys whose bytes differ, those that have grown most first."""
    keys = [*now, *(key for key in before if key not in now)]
    found = {key: (now.get(key, 0), before.get(key, 0)) for key in keys}
    changed = {key: pair for key, pair in found.items() if pair[0] != pair[1]}
    return dict(sorted(changed.items(), key=lambda one: one[1][1] - one[1][0]))


def _shown(now: int, before: int, compared: bool) -> str:
    return f"{'+' if now > before else '-'}{human(abs(now - before))}" if compared else human(now)
