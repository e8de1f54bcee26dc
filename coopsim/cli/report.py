"""coopsim report T… -o F.html: replay over policies and budgets, and write one HTML file that needs no network."""

import argparse
import sys
from contextlib import redirect_stdout

from coopsim.progress import note, progress
from coopsim.trace import load_trace


def run(args: argparse.Namespace) -> int:
    from coopsim import budget, files, policies
    from coopsim.figures import page, page_data
    from coopsim.kernel.jit import note_if_cold
    from coopsim.options import ReplayOptions

    files.target(args.output)
    names = policies.split(args.policy)
    for name in names:
        policies.find(name)
    ask = page_data.Ask(
        policies=names,
        budgets=budget.parse_list(args.budget),
        band=args.band,
        band_width=args.band_width,
        options=ReplayOptions(args.steps, args.cost_model, args.random, args.overhead_limit, seed=args.seed),
    )
    traces = [load_trace(name) for name in args.traces]
    total = sum(ask.replays(trace) for trace in traces)
    note_if_cold()
    with progress("replays", total) as tick, redirect_stdout(sys.stderr):  # of policies that print
        data = page_data.collect(traces, ask, tick)
    page.write(data, args.output)
    note(f"wrote {args.output}: {total} replays")
    return 0
