"""Judge a script by a long run: the steps that it took, replayed thousands of steps on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from coopsim.base.errors import CaptureError
from coopsim.base.types import CoopsimError
from coopsim.run.longrun.recorded import RecordedSteps
from coopsim.run.longrun.run import Card, LongRun
from coopsim.run.longrun.verdict import LongVerdict, judge
from coopsim.run.memory import SURELY_ENOUGH
from coopsim.run.ranks.job import of_rank
from coopsim.run.report import Report
from coopsim.run.script import Script

_TOLERANCE = 0.01  #: relative tolerance of the smallest memory


def card_of(report: Report, memory_bytes: int) -> Card:
    """What PyTorch's allocator finds of a card: what the context and others took is not its."""
    beside = report.peak_device_bytes - report.peak_reserved_bytes
    return Card(memory_bytes - beside, report.limit_bytes or 0)


def recorded(report: Report, file: Path) -> list[tuple[Report, RecordedSteps]]:
    """The requests of the steps of a run, which it has written to `file`; of a job: of each rank that ran.

    Raises CoopsimError if they cannot be replayed: several processes made them, or there is no record.
    """
    found = []
    for one in report.ranks or (report,):
        own = Path(of_rank(str(file), one.rank)) if report.ranks else file
        if one.processes > 1:
            raise CoopsimError("the steps cannot be replayed: several processes of the script, or of a rank, use a GPU")
        if not own.exists():
            raise CoopsimError("the steps cannot be replayed: the script's process left no record of them")
        found.append((one, RecordedSteps.load(own)))
    return found


def worst(verdicts: Sequence[LongVerdict]) -> int:
    """Which rank's memory runs out first, or is reserved most of if none's does, given each one's verdict."""
    steps = [verdict.out.step if verdict.out else len(verdict.run) + 1 for verdict in verdicts]
    return min(range(len(verdicts)), key=lambda i: (steps[i], -verdicts[i].parts.reserved_bytes))


def judged(script: Script, report: Report, file: Path) -> Report:
    """Return the report of a run with the peaks of its replay, and the outcome "oom" if memory runs out in that.

    `file`: its requests (longrun/recorded.py). On a card that has surely enough, `replay_needs_bytes` is the
    smallest memory of a card, context included, in which the replay does not run out, to one percent. Of a job whose
    ranks differ, as a pipeline's, they are those of the rank that runs out first, or else takes most.
    Raises CaptureError if the steps cannot be replayed.
    """
    if report.outcome == "oom" or report.interrupted:
        return report
    try:
        lengths = Path(script.lengths) if script.lengths else None
        verdicts = [
            judge(
                LongRun(of, lengths, script.replay_steps), card_of(one, script.total_bytes), lambda _: None, helps=False
            )
            for one, of in recorded(report, file)
        ]
    except CaptureError:
        raise
    except CoopsimError as e:
        raise CaptureError(str(e)) from None
    verdict = verdicts[worst(verdicts)]
    run, card, replay = verdict.run, verdict.card, verdict.replay
    allocated, reserved = replay.allocated.max, replay.reserved.max
    beside = script.total_bytes - card.bytes
    needs = None
    if script.total_bytes >= SURELY_ENOUGH:
        needs = beside + _smallest(run, allocated, reserved, card.limit_bytes)
    return replace(
        report,
        outcome="oom" if verdict.out else "ok",
        peak_allocated_bytes=allocated,
        peak_reserved_bytes=reserved,
        peak_device_bytes=beside + reserved,
        replay=replay,
        replay_needs_bytes=needs,
    )


def _smallest(run: LongRun, low: int, high: int, limit: int) -> int:
    """The fewest bytes with which a run is played to its end; with `high` it is, with less than `low` it is not."""
    while high - low > _TOLERANCE * high:
        middle = (low + high) // 2
        if run.play(Card(middle, limit)).failed:
            low = middle
        else:
            high = middle
    return high
