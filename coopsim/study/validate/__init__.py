"""The judge: is this schedule a way to run this trace within its budget?

It shares no code with what it judges. It runs the raw trace beside the schedule, knows by content what every block of
memory holds, and takes no row's word for it. A *content* is (iteration, storage, version): what an op wrote, in that
iteration, as that version of that storage. Ops are functions, so an op that finds the contents it needs writes the
contents it should; one that does not is reported, and taken to have written them all the same, so that one fault is
told once. What is taken over from iteration to iteration keeps its content, whatever its new name.

Which values go, and when, and where they lie, is the policy's business and is not judged.
"""

from collections.abc import Iterator

from coopsim.base.errors import of_type
from coopsim.base.types import Outcome
from coopsim.study.validate.faults import Fault, Reason
from coopsim.study.validate.judge import GRANULE, LIMIT, SEGMENTED, Judge
from coopsim.trace import Trace
from coopsim.trace.schedule import Schedule

__all__ = ["LIMIT", "Fault", "Reason", "validate"]


def validate(schedule: Schedule, trace: Trace) -> list[Fault]:
    """The faults of a schedule, in order, the first 20 at most; an empty list says that it is sound."""
    of_type("schedule", schedule, Schedule, "coopsim.replay gives one")
    of_type("trace", trace, Trace, "coopsim.load gives one")
    if faults := list(_header_faults(schedule, trace)):
        return faults
    judge = Judge(schedule, trace)
    judge.read(schedule.rows())
    return judge.faults[:LIMIT]


def _header_faults(schedule: Schedule, trace: Trace) -> Iterator[Fault]:
    header = schedule.header

    def bad(message: str) -> Fault:
        return Fault(Reason.BAD_HEADER, -1, message)

    if header.get("trace") != trace.content_hash:
        yield bad(f"a schedule of trace {header.get('trace')}, not of {trace.content_hash}")
    if header.get("outcome") not in set(Outcome):
        yield bad(f"unknown outcome {header.get('outcome')!r}")
    if header.get("allocator") not in GRANULE:
        yield bad(f"unknown allocator {header.get('allocator')!r}")
    elif header.get("granule") != GRANULE[header["allocator"]]:
        yield bad(f"granule {header.get('granule')} in {header['allocator']}")
    for key in ("budget_bytes", "steps"):
        if not isinstance(header.get(key), int) or header[key] < 1:
            yield bad(f"{key} is {header.get(key)!r}, not a positive integer")
            return
    if header["allocator"] in SEGMENTED:
        reserved = header.get("peak_reserved_bytes")
        if not isinstance(reserved, int) or not 0 <= reserved <= header["budget_bytes"]:
            yield bad(f"peak_reserved_bytes is {reserved!r}, not within the budget of {header['budget_bytes']}")
