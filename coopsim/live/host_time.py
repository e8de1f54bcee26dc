"""What a step takes of the GPU and of the host, as it is and by a plan, in ns. Knows no torch.

The host issues the ops that the GPU runs, and a step takes as long as the slower of both. The GPU's time is the cost of
the ops. The host's is a model, calibrated on one step of one program on one machine, which ran an earlier version
(docs/live-measured.md).
"""

from collections.abc import Sized
from dataclasses import asdict, dataclass

import numpy as np

from coopsim.schedule import Schedule
from coopsim.trace import Trace
from coopsim.types import Action

PLAIN_NS = 18_300  #: of an op that PyTorch dispatches, views included
FOLLOWED_NS = 4_700  #: more, where the op is followed by a plan
AGAIN_NS = 43_700  #: of an op that is run again, and of the evictions that make that necessary

COPY_NS = 120_000  #: of a copy to the host or back; on the phantom it takes the host 6.5 times what a plain op takes

_COPIES = (int(Action.OFFLOAD), int(Action.FETCH))


@dataclass(frozen=True)
class StepTime:
    """Predicted times of a step in ns, on the GPU and on the host: as it is (`plain`), and by a plan (`planned`)."""

    plain_gpu: int
    plain_host: int
    planned_gpu: int
    planned_host: int

    @property
    def overhead(self) -> float:
        """The time of a step by the plan, divided by that of a step as it is: 1.1 is 10 % more."""
        plain = max(self.plain_gpu, self.plain_host)
        return max(self.planned_gpu, self.planned_host) / plain if plain else 1.0

    @property
    def gpu_overhead(self) -> float:
        """The same of the GPU alone."""
        return self.planned_gpu / self.plain_gpu if self.plain_gpu else 1.0

    def row(self) -> dict[str, int]:
        """For JSON."""
        return asdict(self)


def step_time(trace: Trace, op_log: Sized, schedule: Schedule, *, on_gpu: bool) -> StepTime:
    """Predict the times of a step by a schedule that runs to its end.

    op log: all ops that the step dispatches. on_gpu: else the host runs the ops, which is all that is counted.
    """
    gpu = int(trace.cost_ns.sum())
    planned = round(gpu * (schedule.overhead or 1.0))
    if not on_gpu:
        return StepTime(gpu, 0, planned, 0)
    again = int(np.count_nonzero(schedule.action == Action.RECOMPUTE))
    copies = int(np.isin(schedule.action, _COPIES).sum())
    host = len(op_log) * (PLAIN_NS + FOLLOWED_NS) + again * AGAIN_NS + copies * COPY_NS
    return StepTime(gpu, len(op_log) * PLAIN_NS, planned, host)
