"""Flags that several verbs share.

The flags of the verb that measures a card.
"""

import argparse


def timeline_params(p: argparse.ArgumentParser) -> None:
    """Add --timeline-params, the parameters of the simulation in time."""
    p.add_argument(
        "--timeline-params",
        metavar="TOML",
        help="file with other host and queue parameters for the timeline (docs/timeline.md)",
    )


def copies(p: argparse.ArgumentParser) -> None:
    """The link and the host, for policies that offload."""
    p.add_argument(
        "--link",
        metavar="L",
        help="for policies that offload: link to the host, of `coopsim list links` or a file of `coopsim calibrate` "
        "(default: that of the trace's card)",
    )
    p.add_argument(
        "--host-memory", metavar="BYTES", help="for policies that offload: host memory for copies (default: no limit)"
    )
    p.add_argument(
        "--host-bandwidth",
        type=float,
        metavar="GB/S",
        help="for policies that offload: what both directions of the link reach together (default: 1.7 times one)",
    )


def trace_of_schedule(p: argparse.ArgumentParser) -> None:
    """Add --trace, the trace of a schedule."""
    p.add_argument("--trace", metavar="T", help="the schedule's trace (default: searched for by its hash)")


def driver(p: argparse.ArgumentParser, of: str = "") -> None:
    """Add --driver."""
    p.add_argument(
        "--driver",
        choices=("first-fit", "cuda"),
        help=f"{of}where cudaMalloc puts segments, which decides ties up to torch 2.11; cuda: as observed on a card "
        "(default: first-fit)",
    )


def calibrate(p: argparse.ArgumentParser) -> None:
    """Flags of `calibrate`."""
    p.add_argument("-o", "--output", metavar="FILE.json", required=True, help="card file to write, for --gpu FILE.json")
    p.add_argument(
        "--parts",
        metavar="A,B",
        help="measure these only, of context, link, host, addresses, prices, workspaces (default: all)",
    )
    p.add_argument("--by", metavar="NAME", default="unnamed", help="who measures, as `coopsim list hardware` is to say")
    p.add_argument(
        "--dry-run", metavar="CARD", help="imitate this card on the phantom GPU; --gpu refuses what that gives"
    )
