"""The flags of the verbs that replay traces."""

import argparse

from coopsim.base.types import CostModel
from coopsim.cli import flags_shared, grid
from coopsim.cli.flags_shared import OF_TORCH, natural, positive

COST_MODELS = tuple(str(model) for model in CostModel)
BUDGET_HELP = "6GiB, 4096MiB, 24GB (GB: 10^9 bytes), 123456B, or 60%% of the peak without eviction"


def replay(p: argparse.ArgumentParser) -> None:
    p.add_argument("trace", metavar="T", help="trace file, name of `coopsim list traces`, or synth:NAME")
    p.add_argument(
        "--policy",
        required=True,
        metavar="P",
        help="a policy of `coopsim list policies`, NAME:choice=value,… to change parts of it, or ./FILE.py:NAME",
    )
    p.add_argument(
        "--allocator", default="arena", help="memory to replay in, of `coopsim list allocators` (default: %(default)s)"
    )
    p.add_argument("--torch", metavar="V", help=f"for cuda-caching: {OF_TORCH}")
    p.add_argument("--alloc-conf", metavar="STRING", help="for cuda-caching: value of PYTORCH_CUDA_ALLOC_CONF")
    flags_shared.driver(p, "for cuda-caching: ")
    p.add_argument("--budget", required=True, metavar="B", help=BUDGET_HELP)
    _common(p)
    flags_shared.copies(p)
    p.add_argument("-o", "--output", metavar="S", help="schedule file to write")
    p.add_argument(
        "--timeline", action="store_true", help="also simulate the schedule's timeline: host, launch queue, GPU stream"
    )
    flags_shared.timeline_params(p)
    p.add_argument("--json", action="store_true", help="print one JSON object")


def gap(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "trace",
        metavar="T",
        help="trace file, name of `coopsim list traces`, or synth:NAME; exact for traces of up to about a hundred ops",
    )
    p.add_argument("--budget", required=True, metavar="B,B|FROM:TO:STEP", help=BUDGET_HELP)
    p.add_argument("--policy", metavar="P,P", help="policies to compare (default: all; those that offload with --link)")
    p.add_argument(
        "--time-limit",
        type=positive,
        default=60,
        metavar="SECONDS",
        help="time for each budget's optimum (default: 60)",
    )
    flags_shared.copies(p)
    p.add_argument("--json", action="store_true", help="print JSON")


def report(p: argparse.ArgumentParser) -> None:
    p.add_argument("traces", metavar="T", nargs="+", help="trace files, names of `coopsim list traces`, or synth:NAME")
    p.add_argument("-o", "--output", metavar="F.html", required=True, help="HTML file to write")
    p.add_argument("--policy", default=grid.POLICIES, metavar="P,P", help="policies (default: %(default)s)")
    p.add_argument("--budget", default=grid.BUDGETS, metavar="B,B|FROM:TO:STEP", help="budgets (default: %(default)s)")
    p.add_argument(
        "--band",
        type=positive,
        default=5,
        metavar="N",
        help="in curves, replay N neighbouring budgets for each (default: 5)",
    )
    flags_shared.band_width(p, 0.05)
    _common(p)


def _common(p: argparse.ArgumentParser) -> None:
    p.add_argument("--steps", type=positive, default=10, help="training steps in one memory (default: 10)")
    p.add_argument(
        "--cost-model",
        choices=COST_MODELS,
        default="cost",
        help="cost of an op that the policy assumes: recorded time, bytes moved, floating point operations, or 1 "
        "(default: cost); the reported cost is always the trace's",
    )
    flags_shared.random(p)
    p.add_argument("--seed", type=natural, default=0, metavar="N", help="of a policy's chance (default: 0)")
    flags_shared.overhead_limit(p, 10.0)
