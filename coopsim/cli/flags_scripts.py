"""The flags of the verbs that run a training script or record a step."""

import argparse

from coopsim.base import option
from coopsim.base.capture_options import CaptureOptions
from coopsim.base.run_options import RunOptions
from coopsim.cli import flags_shared
from coopsim.cli.flags_shared import duration, positive


def capture(p: argparse.ArgumentParser) -> None:
    p.add_argument("target", metavar="MODEL|FILE.py:FUNCTION", help="a reference model, or your own step function")
    p.add_argument("-o", "--output", metavar="T", required=True, help="trace file to write")
    flags_shared.gpu(p, "card to record for", default="a100-80gb")
    option.add(p, CaptureOptions, "capture")


def fit(p: argparse.ArgumentParser) -> None:
    p.usage = "%(prog)s --gpu CARD [options] -- COMMAND ..."
    flags_shared.command(p, "train.py --batch-size {64}")
    flags_shared.gpu(p, "card to fit", "; any: all of the list", required=True)
    p.add_argument("--memory", metavar="B", help="memory of the card, instead of its own: 11GiB, 24GB")
    option.add(p, RunOptions, "fit")
    p.add_argument("-j", "--jobs", type=positive, metavar="N", help="runs of the script at a time (default: 1)")
    p.add_argument(
        "--time",
        type=duration,
        default=300.0,
        metavar="T",
        help="how long to look for remedies, as in 90s, 5m, 1h: then it shows what is known (default: 5m)",
    )
    what = p.add_mutually_exclusive_group()
    what.add_argument("--apply", type=positive, metavar="N", help="run the script with remedy N; no file is changed")
    what.add_argument(
        "--patch", type=positive, metavar="N", help="print remedy N as a diff, if the lines to change are certain"
    )
    p.add_argument("--json", action="store_true", help="print one JSON object")


def live(p: argparse.ArgumentParser) -> None:
    actions = p.add_subparsers(metavar="ACTION", required=True)
    summary = (
        "train inside a memory budget, with the same numbers; a step is what lies between two calls of Optimizer.step"
    )
    p = actions.add_parser("run", help=summary, description=summary, usage="%(prog)s [options] -- COMMAND ...")
    _live_common(p, "run", "if the plan is for one")
    p.add_argument(
        "--memory", metavar="B", help="the budget: 8GiB, or 50%% of what a step takes without one (default: the plan's)"
    )
    p.add_argument("--plan", metavar="F", help="plan made by `coopsim live plan`: even the first step follows it")
    p.add_argument(
        "--no-cache",
        action="store_true",
        help="neither follow the plans of an earlier start nor keep any, and wait for plans: each run is the same",
    )
    summary = "plan a script's steps in a memory budget, without a GPU: do they fit, and at what cost?"
    p = actions.add_parser("plan", help=summary, description=summary, usage="%(prog)s [options] -- COMMAND ...")
    _live_common(p, "plan", "where PyTorch's caching allocator takes more than the budget")
    p.add_argument("--memory", required=True, metavar="B", help="the budget: 8GiB")
    p.add_argument("-o", "--output", required=True, metavar="F", help="plan file to write, if it fits")
    p.add_argument(
        "--steps",
        type=positive,
        default=0,
        metavar="N",
        help="how many steps to look at (default: until a kind of step repeats)",
    )


def _live_common(p: argparse.ArgumentParser, action: str, default: str) -> None:
    p.set_defaults(action=action)
    flags_shared.command(p, "train.py --epochs 1")
    p.add_argument(
        "--policy", default="foresight-offline", help="policy, as for `coopsim replay` (default: %(default)s)"
    )
    flags_shared.gpu(p, "imitate this card on the phantom GPU", " (default: use this machine's devices)")
    option.add(p, RunOptions, "live")
    p.add_argument(
        "--arena",
        action=argparse.BooleanOptionalAction,
        help="memory is one reservation of the budget's size, with each request where the plan has it; the budget is "
        f"then an amount, and there has to be a C++ compiler (default: {default})",
    )
    p.add_argument(
        "--offload",
        action=argparse.BooleanOptionalAction,
        help="plans may also copy values to the host's memory and fetch them, where that is predicted to cost less "
        "than recomputing alone (default: as in the plan)",
    )
    p.add_argument("--host-memory", metavar="B", help="the most that copies take on the host (default: no limit)")
    p.add_argument(
        "--link",
        metavar="L",
        help="with --offload: link to the host, of `coopsim list links` or a card file (default: the card's)",
    )
    p.add_argument("--traceback", action="store_true", help="show the script's traceback if it fails")
    p.add_argument("--json", action="store_true", help="print one JSON object; the script's own output goes to stderr")
