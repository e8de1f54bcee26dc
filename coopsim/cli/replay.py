"""coopsim replay T --policy P --budget B: one replay, as a few lines or one JSON object."""

import argparse
import json
from typing import Any

from coopsim.cli.common import load_trace, note
from coopsim.text import human

EXIT_CODES = {"ok": 0, "oom": 3, "thrash": 4, "lost": 4}


def run(args: argparse.Namespace) -> int:
    from coopsim import allocators, budget, policies

    policy = policies.find(args.policy)
    allocator = allocators.find(args.allocator)
    trace = load_trace(args.trace)

    from coopsim.trace.measure import peak_bytes

    peak = peak_bytes(trace, allocator.granule)
    nbytes = budget.parse(args.budget, peak)

    from coopsim.kernel.jit import is_cold
    from coopsim.metrics import summary
    from coopsim.replay import replay

    if is_cold():
        note("compiling the replay core: some seconds, once")
    schedule = replay(
        trace,
        policy,
        args.allocator,
        nbytes,
        steps=args.steps,
        decide_by=args.decide_by,
        overhead_limit=args.overhead_limit,
        random=args.random,
    )
    result = summary(schedule) | {
        "peak_without_eviction_bytes": peak,
        "memory_ratio": nbytes / peak,
    }
    if args.timeline:
        from coopsim import timeline

        result["timeline"] = timeline.summary(timeline.simulate(schedule, trace))
    if args.output:
        from coopsim.schedule import save

        save(schedule, args.output)
        note(f"wrote {args.output}: {len(schedule)} actions")
    print(json.dumps(result, indent=1) if args.json else describe(result))
    if result["outcome"] != "ok":
        note(f"coopsim: {explain(result)}")
    return EXIT_CODES[result["outcome"]]


def describe(r: dict[str, Any]) -> str:
    """The figures of a replay as lines."""

    def percent(x: float | None) -> str:
        return "-" if x is None else f"{x:.1%}"

    lines = [
        ("trace", r["trace"]),
        ("policy", f"{r['policy']} in {r['allocator']}, deciding by {r['decide_by']}"),
        ("budget", f"{human(r['budget_bytes'])}, {r['memory_ratio']:.1%} of the peak without eviction"),
        ("outcome", r["outcome"]),
        ("overhead", "-" if r["overhead"] is None else f"{r['overhead']:.3f}x over {r['steps']} steps"),
        ("cost", f"{r['total_cost_ns'] / 1e6:.1f} ms, of which {r['recompute_cost_ns'] / 1e6:.1f} ms recomputing"),
        ("peak", human(r["peak_bytes"])),
        ("evictions", f"{r['evictions']} under pressure, {r['releases']} releases, {r['recomputes']} ops run again"),
        (
            "fragmentation",
            f"{percent(r['fragmentation_rate'])} ({percent(r['fragmentation_rate_incl'])} with the request as free)",
        ),
        (
            "search",
            f"{r['searches']} searches, {r['search_visits']} pieces visited, {(r['search_ns'] or 0) / 1e6:.2f} ms",
        ),
    ]
    if t := r.get("timeline"):
        hidden = "-" if t["hidden_fraction"] is None else f"{t['hidden_fraction']:.0%}"
        lines += [
            ("step time", "-" if t["step_ns"] is None else f"{t['step_ns'] / 1e6:.1f} ms on the simulated GPU"),
            ("GPU waits", f"{t['gpu_waited_ns'] / 1e6:.3f} ms for the host, in all steps"),
            ("search hidden", f"{hidden} of {t['search_ns'] / 1e6:.1f} ms behind the GPU's work"),
        ]
    width = max(len(name) for name, _ in lines) + 2
    return "\n".join(f"{name:<{width}}{text}" for name, text in lines)


def explain(r: dict[str, Any]) -> str:
    """One line on why a replay did not end well, with its numbers."""
    f = r["failure"]
    where = f"step {f['step']}, op {f['op']} ({f['op_name']})" if f["op"] >= 0 else "what is there when the step starts"
    if r["outcome"] == "thrash":
        return f"thrash at {where}: total cost beyond {r['overhead_limit']:g} times the cost without recomputation"
    if r["outcome"] == "lost":
        return f"lost at {where}: it needs a value that an in-place update has destroyed; use pinning=sound"
    fixed = sum(f["fixed_bytes"].values())
    held = ", ".join(f"{role} {human(n)}" for role, n in sorted(f["fixed_bytes"].items(), key=lambda x: -x[1]))
    return (
        f"out of memory at {where}: needs {human(f['needed_bytes'])}; {human(f['free_bytes'])} free, largest hole "
        f"{human(f['largest_hole_bytes'])}; {human(fixed)} cannot be evicted ({held or 'nothing'}), "
        f"{human(f['pinned_bytes'])} in use by the op"
    )
