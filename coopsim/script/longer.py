"""Judge a script by a long run: the steps that it took, replayed thousands of steps on."""

from dataclasses import replace
from pathlib import Path

from coopsim.longrun.recorded import Recorded
from coopsim.longrun.run import Card, Run
from coopsim.longrun.verdict import judge
from coopsim.observe.errors import CaptureError
from coopsim.script.memory import ENDLESS, SURELY_ENOUGH
from coopsim.script.report import Report
from coopsim.script.script import Script
from coopsim.types import CoopsimError

_TOLERANCE = 0.01  #: relative tolerance of the smallest memory


def card_of(report: Report, memory_bytes: int) -> Card:
    """What PyTorch's allocator finds of a card: what the context and others took is not its."""
    beside = report.peak_device_bytes - report.peak_reserved_bytes
    return Card(memory_bytes - beside, report.limit_bytes or 0)


def check(report: Report, file: Path) -> None:
    """Raise CoopsimError if the steps of a run cannot be replayed: it had several processes, or left no record."""
    if report.processes > 1:
        raise CoopsimError("a replay of steps is for a script of one process that uses the GPU")
    if not file.exists():
        raise CoopsimError("the steps cannot be replayed: the script's process left no record of them")


def divided(script: Script, times: int) -> Script:
    """Return the script, on a card without end, with some of its batches cut into `times` parts (dividing.py)."""
    return replace(script.with_memory(ENDLESS), guest="coopsim.script.dividing", told=str(times))


def judged(script: Script, report: Report, file: Path) -> Report:
    """Return the report of a run with the peaks of its replay, and the outcome "oom" if memory runs out in that.

    `file`: its requests (longrun/recorded.py). On a card that has surely enough, `needs_bytes` in `replay` is the
    smallest memory of a card, context included, in which the replay does not run out, to one percent.
    Raises CaptureError if the steps cannot be replayed.
    """
    if report.outcome == "oom" or report.interrupted:
        return report
    try:
        check(report, file)
        run = Run(Recorded.load(file), Path(script.lengths) if script.lengths else None, script.replay_steps)
        card = card_of(report, script.total_bytes)
        verdict = judge(run, card, lambda _: None, helps=False)
    except CaptureError:
        raise
    except CoopsimError as e:
        raise CaptureError(str(e)) from None
    found = verdict.to_dict()
    allocated, reserved = found["allocated"]["max"], found["reserved"]["max"]
    beside = script.total_bytes - card.bytes
    if script.total_bytes >= SURELY_ENOUGH:
        found["needs_bytes"] = beside + _smallest(run, allocated, reserved, card.limit_bytes)
    return replace(
        report,
        outcome="oom" if verdict.out else "ok",
        peak_allocated_bytes=allocated,
        peak_reserved_bytes=reserved,
        peak_device_bytes=beside + reserved,
        replay=found,
    )


def _smallest(run: Run, low: int, high: int, limit: int) -> int:
    """The fewest bytes with which a run is played to its end; with `high` it is, with less than `low` it is not."""
    while high - low > _TOLERANCE * high:
        middle = (low + high) // 2
        if run.play(Card(middle, limit)).failed:
            low = middle
        else:
            high = middle
    return high
