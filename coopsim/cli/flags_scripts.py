"""The flags of the verbs that run a training script or record a step."""

import argparse

from coopsim.cli import flags_shared
from coopsim.cli.values import duration, natural, positive, span


def _masks(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--masks",
        choices=("all", "half", "none"),
        default="",
        help="what boolean masks, nonzero, unique and the like keep, whose data do not exist without a GPU (default: "
        "all, an upper bound, with tokens routed evenly to experts; where there is one, `phantom run` and `fit` also "
        "say what the script takes if masks keep nothing)",
    )


def _precision(p: argparse.ArgumentParser, default: str) -> None:
    p.add_argument(
        "--precision",
        choices=("tf32", "fp32"),
        help=f"precision of float32 products, for predicted times (default: {default})",
    )


def _workspaces(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--workspaces",
        choices=("rule", "none"),
        default="",
        help="what cuDNN takes beside tensors for convolutions and recurrent layers: as rules from an H100's "
        "measurements say, or nothing (default: rule on cards of compute capability 9.0, else none)",
    )


def _long(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--replay-steps",
        type=positive,
        metavar="N",
        help="go on to step N by replaying the requests of the steps that ran, of lengths drawn from theirs",
    )
    p.add_argument(
        "--lengths",
        metavar="FILE",
        help="replay steps of these lengths instead: a line per step, the length of its inputs",
    )


def capture(p: argparse.ArgumentParser) -> None:
    """Flags of `capture`."""
    p.add_argument("target", metavar="MODEL|FILE.py:FUNCTION", help="a reference model, or your own step function")
    p.add_argument("-o", "--output", metavar="T", required=True, help="trace file to write")
    flags_shared.gpu(p, "card to record for", default="a100-80gb")
    p.add_argument(
        "--device",
        choices=("phantom", "cuda"),
        default="phantom",
        help="phantom: without a GPU; cuda: on a real GPU, with measured costs (default: phantom)",
    )
    p.add_argument(
        "--passes", type=positive, default=5, help="with --device cuda: how often the steps are measured (default: 5)"
    )
    p.add_argument(
        "--limit",
        action="store_true",
        help="fail (exit code 3) where the card's memory runs out (default: a step may take more than the card has)",
    )
    _precision(p, "as a file sets it, tf32 for a reference model, which is trained in it, too")
    p.add_argument("--batch", type=positive, help="batch size of a reference model (default: its own)")
    p.add_argument(
        "--optimizer",
        choices=("sgd", "momentum", "adam", "adamw"),
        help="optimizer of a reference model (default: its own)",
    )
    p.add_argument("--amp", choices=("bf16",), help="train a reference model under autocast")
    p.add_argument(
        "--attention", choices=("eager", "sdpa"), help="attention of a reference model that has it (default: its own)"
    )
    p.add_argument(
        "--gradients",
        choices=("dropped", "zeroed"),
        help="what a reference model does with gradients after the optimizer (default: dropped)",
    )
    _masks(p)
    _workspaces(p)
    p.add_argument("--steps", type=positive, default=1, help="record this many consecutive steps (default: 1)")
    p.add_argument("--warmup", type=natural, default=2, help="steps that run before the recorded ones (default: 2)")
    p.add_argument("--name", default="", metavar="LABEL", help="label of the trace in tables and figures")


def phantom(p: argparse.ArgumentParser) -> None:
    """Flags of `phantom`."""
    actions = p.add_subparsers(metavar="ACTION", required=True)
    summary = "run a training command on a phantom GPU, and report how much memory of the card it takes"
    p = actions.add_parser("run", help=summary, description=summary, usage="%(prog)s [options] -- COMMAND ...")
    flags_shared.command(p, "train.py --epochs 1")
    flags_shared.gpu(p, "card to imitate", default="a100-80gb")
    p.add_argument("--memory", metavar="B", help="memory of the card, instead of its own: 11GiB, 24GB")
    _masks(p)
    _workspaces(p)
    p.add_argument("--fit", action="store_true", help="find the smallest memory in which it trains")
    p.add_argument(
        "--largest",
        type=span,
        metavar="LOW:HIGH",
        help="find the largest whole number, such as a batch size, with which it trains; {} in the command marks where "
        "the number goes; to 1%%; the range is widened if the answer lies outside",
    )
    p.add_argument(
        "--compile-budget",
        metavar="B",
        help="find the largest activation_memory_budget of torch.compile with which it trains in this much memory",
    )
    p.add_argument(
        "--world", type=positive, metavar="N", help="run it as one of N ranks (default: the launcher's number)"
    )
    p.add_argument("--fewest-ranks", action="store_true", help="find the fewest cards on which such a job fits")
    p.add_argument(
        "--nccl-memory",
        metavar="B",
        help="memory of the card that each NCCL communicator takes: 1GiB, 0B (default: 544 MB with 2 ranks, 688 MB "
        "with more)",
    )
    p.add_argument("--ranks", metavar="0,7|all", help="ranks to run, in a job of several (default: 0)")
    p.add_argument(
        "--max-memory", metavar="B", help="fail (exit code 1) if it takes more of the card, the context included"
    )
    p.add_argument(
        "--baseline", metavar="F", help="fail (exit code 1) if its peaks are not those in this file, byte for byte"
    )
    p.add_argument(
        "--allow-no-step",
        action="store_true",
        help="with --max-memory or --baseline: a run may pass without an optimizer step",
    )
    p.add_argument("--update", action="store_true", help="with --baseline: write this run's peaks there instead")
    p.add_argument(
        "--snapshot", metavar="F", help="write PyTorch's memory snapshot: when memory runs out, or else at the end"
    )
    p.add_argument("--trace", metavar="T", help="write a trace of steady steps (between calls of Optimizer.step)")
    p.add_argument("--trace-steps", type=positive, default=1, metavar="N", help="steps in the trace (default: 1)")
    p.add_argument("--warmup", type=positive, default=2, help="steps before those in the trace (default: 2)")
    p.add_argument("--steps", type=positive, metavar="N", help="end the script after N optimizer steps")
    _long(p)
    _precision(p, "as the script sets it")
    p.add_argument("--json", action="store_true", help="print one JSON object; the script's own output goes to stderr")


def fit(p: argparse.ArgumentParser) -> None:
    """Flags of `fit`."""
    p.usage = "%(prog)s --gpu CARD [options] -- COMMAND ..."
    flags_shared.command(p, "train.py --batch-size {64}")
    flags_shared.gpu(p, "card to fit", "; any: all of the list", required=True)
    p.add_argument("--memory", metavar="B", help="memory of the card, instead of its own: 11GiB, 24GB")
    _masks(p)
    _workspaces(p)
    p.add_argument("--steps", type=positive, metavar="N", help="end every run after N optimizer steps")
    _long(p)
    p.add_argument("-j", "--jobs", type=positive, metavar="N", help="runs of the script at a time (default: 1)")
    p.add_argument(
        "--time",
        type=duration,
        default=300.0,
        metavar="T",
        help="how long to look for remedies, as in 90s, 5m, 1h: then it shows what is known (default: 5m)",
    )
    _precision(p, "as the script sets it")
    what = p.add_mutually_exclusive_group()
    what.add_argument("--apply", type=positive, metavar="N", help="run the script with remedy N; no file is changed")
    what.add_argument(
        "--patch", type=positive, metavar="N", help="print remedy N as a diff, if the lines to change are certain"
    )
    p.add_argument("--json", action="store_true", help="print one JSON object")


def live(p: argparse.ArgumentParser) -> None:
    """Flags of `live`."""
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
    _masks(p)
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
