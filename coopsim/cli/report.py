"""coopsim report T… -o F.html: replay over policies and budgets, and write one HTML file that needs no network."""

import argparse


def run(args: argparse.Namespace) -> int:
    from coopsim.study.figures.page import report

    report(
        args.traces,
        args.output,
        args.policy,
        args.budget,
        band=args.band,
        band_width=args.band_width,
        steps=args.steps,
        cost_model=args.cost_model,
        random=args.random,
        overhead_limit=args.overhead_limit,
        seed=args.seed,
    )
    return 0
