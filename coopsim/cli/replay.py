"""coopsim replay T --policy P --budget B: replay a trace, and print a few lines or one JSON object."""

import argparse
import json
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

from coopsim.base import files
from coopsim.base.progress import note
from coopsim.base.text import human, listed, overhead
from coopsim.base.types import CoopsimError
from coopsim.cli.common import timeline_params
from coopsim.cli.traces import remember
from coopsim.trace import load_trace

EXIT_CODES = {"ok": 0, "oom": 3, "thrash": 4, "lost": 4}


def run(args: argparse.Namespace) -> int:
    if args.output is not None:
        files.target(args.output)
    params = timeline_params(args)
    trace = load_trace(args.trace)
    with redirect_stdout(sys.stderr):  # what a user's policy prints is not part of the result
        schedule, peak = _replay(args, trace)

    from coopsim.simulate.metrics import explain, summary, with_peak

    for what, how in schedule.header.get("own_functions", {}).items():
        if how == "Python":
            note(f"note: {what} of {schedule.header['policy']} runs as Python, not compiled")
    result = with_peak(summary(schedule), peak)
    if params is not None:
        from coopsim.simulate import timeline

        result["timeline"] = timeline.summary(timeline.simulate(schedule, trace, params))
    if args.output is not None:
        from coopsim.trace.schedule import save

        save(schedule, args.output)
        remember(trace, args.trace)
        note(f"wrote {args.output}: {len(schedule)} actions")
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        print(describe(result))
    if result["outcome"] != "ok":
        note(f"coopsim: {explain(result)}")
    return EXIT_CODES[result["outcome"]]


def _replay(args: argparse.Namespace, trace: Any) -> tuple[Any, int]:
    """Replay, and return the schedule and the peak without eviction, in bytes."""
    from coopsim.base import budget
    from coopsim.simulate import allocators, policies
    from coopsim.trace.measure import peak_bytes

    policy = replace(policies.find(args.policy), name=policies.shown([args.policy])[args.policy])
    allocator = allocators.find(args.allocator)
    if args.torch is not None or args.alloc_conf is not None or args.driver is not None:
        if not isinstance(allocator, allocators.CudaCaching):
            raise CoopsimError(
                f"--torch, --alloc-conf and --driver are for the allocator cuda-caching, not for {allocator.name}"
            )
        allocator = allocators.cuda_caching(args.torch or "", args.alloc_conf or "", args.driver or allocators.DRIVER)
    peak = peak_bytes(trace, allocator.granule)
    nbytes = budget.parse(args.budget, peak, "--budget")

    from coopsim.simulate.kernel.jit import note_if_cold
    from coopsim.simulate.options import ReplayOptions
    from coopsim.simulate.replay import record

    note_if_cold()
    options = ReplayOptions(
        args.steps,
        args.cost_model,
        args.random,
        args.overhead_limit,
        args.link or "",
        budget.parse(args.host_memory, None, "--host-memory") if args.host_memory else None,
        args.host_bandwidth,
        args.seed,
    )
    if not policy.offloads and (args.link or args.host_memory or args.host_bandwidth):
        raise CoopsimError(
            "--link, --host-memory and --host-bandwidth are of policies that offload, "
            f"such as swap-lru and coop:lose=either, not of {policy.name}"
        )
    return record(trace, policy, nbytes, allocator, options), peak


def _cost(r: dict[str, Any]) -> str:
    """The total and its parts."""
    waits = "" if r["stall_ns"] is None else f", {r['stall_ns'] / 1e6:.1f} ms waiting for copies"
    return f"{r['total_cost_ns'] / 1e6:.1f} ms, of which {r['recompute_cost_ns'] / 1e6:.1f} ms recomputing{waits}"


def describe(r: dict[str, Any]) -> str:
    """Return the figures of a replay as lines of text."""

    def percent(x: float | None) -> str:
        return "-" if x is None else f"{x:.1%}"

    def ms(ns: float) -> str:
        return f"{ns / 1e6:.2f} ms"

    n, ended = r["steps"], r["outcome"] == "ok"
    what = f"{n} in one memory" + ("; the figures below are of all together" if ended and n > 1 else "")
    lines = [
        ("trace", r["trace"]),
        ("policy", f"{r['policy']} in {r['allocator']}, cost model {r['cost_model']}"),
        ("budget", f"{human(r['budget_bytes'])}, {r['memory_ratio']:.1%} of the peak without eviction"),
        ("outcome", r["outcome"]),
        ("steps", what if ended else f"{what}; the figures below are of what ran"),
        ("overhead", "-" if r["overhead"] is None else overhead(r["overhead"])),
        ("cost", _cost(r)),
        ("peak", human(r["peak_bytes"])),
        ("evictions", f"{r['evictions']} under pressure, {r['releases']} releases, {r['recomputes']} ops run again"),
        (
            "fragmentation rate",
            f"{percent(r['fragmentation_rate'])} ({percent(r['fragmentation_rate_incl'])} with the request as free)",
        ),
        (
            "search",
            f"{r['searches']} searches, {r['search_visits']} blocks visited, {ms(r['search_ns'] or 0)} on this machine",
        ),
    ]
    if ended and n > 1:
        text = f"{r['search_visits'] / n:.0f} blocks visited, {ms((r['search_ns'] or 0) / n)}"
        lines.append(("search per step", text))
    if r["planned_steps"] is not None:
        took = f"{ms(r['planning_ns'])} on this machine"
        text = f"made in {took}, followed by {r['planned_steps']} of {n} steps"
        if not r["planned_steps"]:
            text = f"none found, {took}" if r["planning_ns"] else "none: only a step like the one before goes by plan"
        lines.append(("plans", text))
    if r["lost_cost_ns"]:
        lines.append(
            ("lost", f"{ms(r['lost_cost_ns'])} of steps that ran out of memory and started over; part of the overhead")
        )
    if r["link"] is not None:
        limit = "" if r["host_memory_bytes"] is None else f" of {human(r['host_memory_bytes'])}"
        lines += [
            ("link", r["link"]),
            ("offloaded", f"{r['offloads']} values, {human(r['offloaded_bytes'])}"),
            ("fetched", f"{r['fetches']} values, {human(r['fetched_bytes'])}"),
            ("host memory", f"{human(r['host_peak_bytes'])}{limit} at the peak"),
        ]
    if t := r.get("timeline"):
        hidden = "-" if t["hidden_fraction"] is None else f"{t['hidden_fraction']:.0%}"
        lines += [
            ("step time", "-" if t["step_ns"] is None else f"{t['step_ns'] / 1e6:.1f} ms on the simulated GPU"),
            ("GPU waits", f"{t['gpu_waited_ns'] / 1e6:.3f} ms for the host, in all steps"),
            ("model's search", f"{ms(t['search_ns'])} in all steps, {hidden} of it hidden behind the GPU's work"),
        ]
        if t["device_calls_ns"]:
            lines.append(
                (
                    "device calls",
                    f"{t['device_allocs']} cudaMalloc, {t['device_failures']} failed, {t['device_frees']} cudaFree: "
                    f"{t['exposed_device_calls_ns'] / 1e6:.1f} ms longer, in all steps",
                )
            )
    return listed(lines)
