"""Flags that several verbs share."""

import argparse


def timeline_params(p: argparse.ArgumentParser) -> None:
    """Add --timeline-params, the parameters of the simulation in time."""
    p.add_argument(
        "--timeline-params",
        metavar="TOML",
        help="file with other host and queue parameters for the timeline (docs/timeline.md)",
    )


def trace_of_schedule(p: argparse.ArgumentParser) -> None:
    """Add --trace, the trace of a schedule."""
    p.add_argument("--trace", metavar="T", help="the schedule's trace (default: searched for by its hash)")
