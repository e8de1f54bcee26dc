"""Flags that verbs of several files have."""

import argparse


def timeline_params(p: argparse.ArgumentParser) -> None:
    """Parameters of the simulation in time."""
    p.add_argument(
        "--timeline-params",
        metavar="TOML",
        help="file with other host and queue parameters for the timeline (docs/timeline.md)",
    )


def trace_of_schedule(p: argparse.ArgumentParser) -> None:
    """Where the trace of a schedule is."""
    p.add_argument("--trace", metavar="T", help="the schedule's trace (default: searched for by its hash)")
