"""coopsim sweep T… -o R: replays over a grid, on all cores, with progress; a table at the end."""

import argparse
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from coopsim.cli.common import note, progress


def run(args: argparse.Namespace) -> int:
    from coopsim import budget, files, policies, tables
    from coopsim.kernel.jit import is_cold
    from coopsim.sweep import Grid, sweep

    files.target(args.output)
    grid = Grid(
        traces=args.traces,
        policies=policies.split(args.policy),
        allocators=args.allocator.split(","),
        budgets=budget.parse_list(args.budget),
        band=args.band,
        band_width=args.band_width,
        options={
            "steps": args.steps,
            "decide_by": args.decide_by,
            "overhead_limit": args.overhead_limit,
            "random": args.random,
        },
    )
    points = grid.points()
    if is_cold():
        note("compiling the replay core: some seconds, once")
        warm_up()
    jobs = min(args.jobs or os.cpu_count() or 1, len(points))
    executor = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) if jobs > 1 else None
    try:
        with progress("replays", len(points)) as tick:
            seen = 0

            def on_row(done: int, _total: int) -> None:
                nonlocal seen
                for _ in range(done - seen):
                    tick()
                seen = done

            table = sweep(grid, args.output, executor, on_row)
    except BaseException:
        for worker in multiprocessing.active_children():  # what they are at is not in the journal, and not waited for
            worker.terminate()
        raise
    finally:
        if executor is not None:
            executor.shutdown(cancel_futures=True)
    print(tables.text(table))
    note(f"wrote {args.output}: {len(table)} replays")
    return 0


def warm_up() -> None:
    """Compile in this process, so that workers find the machine code."""
    from coopsim.replay import measure
    from coopsim.trace.build import TraceBuilder

    b = TraceBuilder()
    x, y = b.storage(512, "input", alive_at_start=True), b.storage(512)
    b.op("aten.relu.default", reads=[x], creates=[y], cost_ns=1)
    b.free(y)
    measure(b.build({}), "coop", "arena", 1024, steps=1)
