"""What a schedule takes in wall-clock time: a host thread that dispatches and searches, launch queues, GPU streams.

A replay's clock counts the cost of ops alone. In a training run the host also pays: for each op that it dispatches,
each block that it allocates or frees, each block that a search visits, each cudaMalloc. It runs ahead of the GPU
through a bounded launch queue, so part of that time is hidden behind the GPU's work. How much of the search is hidden
is what `simulate` finds.

- The host goes through the schedule row by row: `dispatch_ns` for an op or a copy, `alloc_ns`, `free_ns` for frees and
  releases, `visits * search_ns_per_visit + evictions * evict_ns` for a search. Then it puts the op into its stream's
  launch queue; if that holds `queue_capacity` ops, the host waits. With `sync_steps` it waits after each step.
- A stream runs its ops in order, each for its recorded cost. Between streams an op waits for what last wrote the bytes
  that it reads, and for what last wrote or read those that it overwrites, by the schedule's addresses: the fewest waits
  that keep the result right. A schedule in a counter has no addresses: several streams are refused.
- Collectives are ops like the others. Other ranks are assumed to arrive at the same time.
- `copy_inputs`: before a step's first op its inputs are copied from the host. `copy_on_write`: a new version that does
  not take over the place of the one before begins as a copy of it.
- On cuda-caching the requests are served again, and must get the schedule's addresses: a cudaMalloc costs the host
  `segment_alloc_ns`, one that finds no memory `segment_refuse_ns`; before a cudaFree (`segment_free_ns`) the host waits
  until the GPU has run all that was launched.
- A search that ends in `oom` has no row in the schedule and costs nothing.
"""

from coopsim.simulate.timeline.params import Params, load_params, measured
from coopsim.simulate.timeline.simulate import HostTime, Timeline, simulate, summary
from coopsim.simulate.timeline.work import Host, TaskKind

__all__ = ["Host", "HostTime", "Params", "TaskKind", "Timeline", "load_params", "measured", "simulate", "summary"]
