"""The figures of one replay, as `coopsim replay --json` prints them and sweeps keep them, and why one failed."""

from typing import TYPE_CHECKING, Any

from coopsim.base.text import human
from coopsim.simulate.options import COLUMNS

if TYPE_CHECKING:
    from coopsim.trace.schedule import Schedule

OF_COPIES = (
    "link",
    "host_memory_bytes",
    "host_peak_bytes",
    "stall_ns",
    "offloads",
    "offloaded_bytes",
    "fetches",
    "fetched_bytes",
)  #: only of policies that offload
SUMMARY_KEYS = (
    "trace",
    "policy",
    "allocator",
    "budget_bytes",
    "steps",
    "outcome",
    "overhead",
    "base_cost_ns",
    "total_cost_ns",
    "peak_bytes",
    "evictions",
    "releases",
    "recomputes",
    "recompute_cost_ns",
    "fragmentation_rate",
    "fragmentation_rate_incl",
    "external_fragmentation",
    "searches",
    "search_ns",
    "search_visits",
    "search_scores",
    "planned_steps",
    "planning_ns",
    "lost_cost_ns",
    "copies",
    "max_blocks",
    "cost_model",
    "random",
    "overhead_limit",
    "seed",
    "torch",
    "alloc_conf",
    "driver",
    "peak_reserved_bytes",
    "alloc_retries",
    *OF_COPIES,
    "failure",
)
WALL_CLOCK_COLUMNS = ("search_ns", "planning_ns")  #: the only figures that may differ between two runs
_SETTINGS_OF_CACHING = ("torch", "alloc_conf", "driver")
_OF_CACHING = (*_SETTINGS_OF_CACHING, "peak_reserved_bytes", "alloc_retries")
_OF_PLANNING = ("planned_steps", "planning_ns", "lost_cost_ns")
#: What a replay is told beside trace, policy and budget, and what it comes to: columns of tables, all of a kind.
SETTINGS = ("allocator", *_SETTINGS_OF_CACHING, *COLUMNS.values())
RESULTS = tuple(key for key in SUMMARY_KEYS if key not in ("trace", "policy", "budget_bytes", *SETTINGS))


def summary(schedule: "Schedule") -> dict[str, Any]:
    """One flat object, whatever the outcome; None where a figure has no meaning.

    overhead: total cost / (steps x cost without recomputation), only if all steps ran; the cost of steps that were
    begun anew (docs/replay.md, Planning) is in it, but not in total_cost_ns. fragmentation_rate: mean, over
    allocations that needed eviction, of free bytes / budget once the hole is found, the new value counted as used
    (OneFlow 2022); fragmentation_rate_incl: as free (OneFlow 2023); external_fragmentation: mean of 1 - largest hole /
    free bytes at the same moments. All three need addresses. base_cost_ns: cost of all steps without recomputation.
    planned_steps, planning_ns, lost_cost_ns: of a policy that plans; steps that went by plan, wall-clock time of making
    plans, cost of steps that were begun anew. torch, alloc_conf, driver, peak_reserved_bytes, alloc_retries: of the
    allocator cuda-caching. link to fetched_bytes: of policies that offload (docs/simulate.md); stall_ns is what ops and
    allocations waited for copies, which is in total_cost_ns and in the overhead.
    """
    h = schedule.header
    samples = h["searches"] - (h["outcome"] == "oom")
    has_addresses = h["allocator"] != "counter"

    def mean(key: str) -> float | None:
        return h[key] / samples if samples and has_addresses else None

    row = (
        dict.fromkeys((*_OF_CACHING, *_OF_PLANNING, *OF_COPIES, "seed"))
        | dict(h)
        | {
            "trace": h["model"],
            "base_cost_ns": schedule.base_cost_ns,
            "overhead": schedule.overhead,
            "fragmentation_rate": mean("free_ratio_sum"),
            "fragmentation_rate_incl": mean("free_ratio_incl_sum"),
            "external_fragmentation": mean("external_fragmentation_sum"),
            "search_ns": h.get("search_ns"),
        }
    )
    return {key: row[key] for key in SUMMARY_KEYS}


def with_peak(row: dict[str, Any], peak_bytes: int) -> dict[str, Any]:
    """The figures of a replay, and what its budget is beside the peak without eviction."""
    return row | {"peak_without_eviction_bytes": peak_bytes, "memory_ratio": row["budget_bytes"] / peak_bytes}


def explain(r: dict[str, Any]) -> str:
    """One line on why a replay did not end well, with its numbers."""
    f = r["failure"]
    where = f"step {f['step'] + 1} of {r['steps']}, op {f['op']} ({f['op_name']})"
    if f["op"] < 0:
        where = "what is there when the step starts"
    if r["outcome"] == "thrash":
        return f"thrash at {where}: total cost beyond {r['overhead_limit']:g} times the cost without recomputation"
    if r["outcome"] == "lost":
        return f"lost at {where}: it needs a value that an in-place update has destroyed; use pinning=sound"
    kept = sum(f["non_evictable_bytes"].values())
    held = ", ".join(f"{role} {human(n)}" for role, n in sorted(f["non_evictable_bytes"].items(), key=lambda x: -x[1]))
    return (
        f"out of memory at {where}: needs {human(f['needed_bytes'])}; {human(f['free_bytes'])} free, largest hole "
        f"{human(f['largest_hole_bytes'])}; {human(kept)} cannot be evicted ({held or 'nothing'}), "
        f"{human(f['pinned_bytes'])} in use by the op"
    )
