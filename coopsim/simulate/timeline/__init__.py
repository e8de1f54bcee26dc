"""What a schedule takes in wall-clock time: a host thread that dispatches and searches, launch queues, GPU streams.

A replay's clock counts the cost of ops alone. In a training run the host also pays: for each op that it dispatches,
each block that it allocates or frees, each block that a search visits, each cudaMalloc. It runs ahead of the GPU
through a bounded launch queue, so part of that time is hidden behind the GPU's work. How much of the search is hidden
is what `simulate` finds. docs/timeline.md has the model.
"""

from coopsim.simulate.timeline.params import Params, load_params, measured
from coopsim.simulate.timeline.simulate import HostTime, Timeline, simulate, summary
from coopsim.simulate.timeline.work import Host, TaskKind

__all__ = ["Host", "HostTime", "Params", "TaskKind", "Timeline", "load_params", "measured", "simulate", "summary"]
