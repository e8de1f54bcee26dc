"""The figures of one replay, as `coopsim replay --json` prints them and sweeps keep them."""

from typing import Any

from coopsim.schedule import Schedule

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
    "scatter",
    "searches",
    "search_ns",
    "search_visits",
    "search_scores",
    "copies",
    "max_pieces",
    "decide_by",
    "random",
    "overhead_limit",
    "torch",
    "alloc_conf",
    "peak_reserved_bytes",
    "alloc_retries",
    "failure",
)
_OF_CACHING = ("torch", "alloc_conf", "peak_reserved_bytes", "alloc_retries")


def summary(schedule: Schedule) -> dict[str, Any]:
    """One flat object, whatever the outcome; None where a figure has no meaning.

    overhead: total cost / (steps x cost without recomputation), only if all steps ran. fragmentation_rate: mean, over
    allocations that needed eviction, of free bytes / budget once the hole is found, the new value counted as used
    (OneFlow 2022); fragmentation_rate_incl: as free (OneFlow 2023); scatter: mean of 1 - largest hole / free bytes at
    the same moments. All three need addresses. base_cost_ns: cost of all steps without recomputation. torch,
    alloc_conf, peak_reserved_bytes, alloc_retries: of the allocator cuda-caching.
    """
    h = schedule.header
    per_step = h["base_step_cost_ns"]
    base = sum(per_step[k % len(per_step)] for k in range(h["steps"]))
    samples = h["searches"] - (h["outcome"] == "oom")
    has_addresses = h["allocator"] != "counter"

    def mean(key: str) -> float | None:
        return h[key] / samples if samples and has_addresses else None

    row = (
        dict.fromkeys(_OF_CACHING)
        | dict(h)
        | {
            "trace": h["model"],
            "base_cost_ns": base,
            "overhead": h["total_cost_ns"] / base if h["outcome"] == "ok" and base else None,
            "fragmentation_rate": mean("free_ratio_sum"),
            "fragmentation_rate_incl": mean("free_ratio_incl_sum"),
            "scatter": mean("scatter_sum"),
            "search_ns": h.get("search_ns"),
        }
    )
    return {key: row[key] for key in SUMMARY_KEYS}
