"""Flags that several verbs share.

The flags of the verb that measures a card.
"""

import argparse
import os
from typing import Any

from coopsim.base.option import natural as natural
from coopsim.base.option import positive as positive
from coopsim.base.types import NEWEST_TORCH, SIMULATED_TORCH

#: The help of --torch.
OF_TORCH = f"version of PyTorch, {SIMULATED_TORCH} (default: {NEWEST_TORCH})"
_UNITS = {"s": 1, "m": 60, "h": 3600}


def card(text: str) -> str:
    """Return a card's name as it is, and the path of a card file in full, as the script may run in another folder."""
    return os.path.abspath(text) if text.endswith(".json") else text


def positives(text: str) -> list[int]:
    """Parse comma-separated whole numbers from 1 to a million."""
    return [positive(part.strip()) for part in text.split(",")]


def duration(text: str) -> float:
    """Parse a duration above 0, such as 90s, 5m or 1h; return seconds."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdecimal()) or len(number) > 6 or not int(number):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a duration, such as 90s, 5m or 1h")
    return float(int(number) * _UNITS[unit])


def span(text: str) -> tuple[int, int]:
    """Parse LOW:HIGH, two whole numbers above 0, LOW not larger than HIGH."""
    low, colon, high = text.partition(":")
    if not colon or (ends := (positive(low), positive(high)))[0] > ends[1]:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not LOW:HIGH, such as 1:4096")
    return ends


def percent(text: str) -> float:
    """Parse a percentage between 0% and 100%, exclusive; return a fraction."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not (text.endswith("%") and 0 < value < 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage between 0% and 100%")
    return value


def timeline_params(p: argparse.ArgumentParser) -> None:
    """Add --timeline-params, the parameters of the simulation in time."""
    p.add_argument(
        "--timeline-params",
        metavar="TOML",
        help="file with other host and queue parameters for the timeline (docs/simulate.md)",
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
    p.add_argument(
        "--driver",
        choices=("first-fit", "cuda"),
        help=f"{of}where cudaMalloc puts segments, which decides ties up to torch 2.11; cuda: as observed on a card "
        "(default: first-fit)",
    )


def gpu(p: Any, what: str, more: str = " (default: %(default)s)", **options: Any) -> None:
    """Add --gpu: `what` it names, and what `more` to say of it."""
    of = "of `coopsim list hardware` or a file of `coopsim calibrate`"
    p.add_argument("--gpu", type=card, metavar="CARD", help=f"{what}, {of}{more}", **options)


def command(p: argparse.ArgumentParser, example: str) -> None:
    """Add the training command after `--`; `example`: its words after python."""
    p.add_argument("command", nargs=argparse.REMAINDER, help=f"the training command, as in: -- python {example}")


def executor(p: argparse.ArgumentParser) -> None:
    where = "where to run: processes, or dask://HOST:PORT, a running cluster (default: processes)"
    p.add_argument("--executor", default="processes", metavar="WHERE", help=where)


def random(p: argparse.ArgumentParser) -> None:
    """Add --random, one of the two."""
    what = "what to do with results of random ops (default: recompute)"
    p.add_argument("--random", choices=("recompute", "keep"), default="recompute", help=what)


def overhead_limit(p: argparse.ArgumentParser, default: float | None) -> None:
    what = "end a replay as `thrash` above X times the cost without recomputation (default: 10)"
    p.add_argument("--overhead-limit", type=float, default=default, metavar="X", help=what)


def band_width(p: argparse.ArgumentParser, default: float | None) -> None:
    what = "from the lowest to the highest neighbour, in %% of the peak (default: 5%%)"
    p.add_argument("--band-width", type=percent, default=default, metavar="W", help=what)


def calibrate(p: argparse.ArgumentParser) -> None:
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
