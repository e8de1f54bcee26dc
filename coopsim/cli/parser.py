"""The verbs and their options. Only the standard library: `coopsim --help` must answer at once."""

import argparse
import importlib
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from coopsim import __version__
from coopsim.cli import grid
from coopsim.cli.values import Renamed, natural, percent, positive, span, tolerance
from coopsim.types import CostModel

_PARAMS_HELP = "file with other host and queue parameters for the timeline (docs/timeline.md)"
_ALLOCATORS_HELP = (
    "For a trace: cuda-caching is PyTorch's allocator; gmlake stitches free chunks into large blocks by remapping them "
    "(GMLake, ASPLOS 2024); planned follows STAlloc (arXiv 2507.16274; called STWeaver in its first version): requests "
    "of the first step get planned addresses in one reserved block, and unplanned requests go to a second allocator"
)
COST_MODELS = tuple(str(model) for model in CostModel)
BUDGET_HELP = "6GiB, 4096MiB, 24GB (GB: 10^9 bytes), 123456B, or 60%% of the peak without eviction"


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


def _verb(name: str) -> Callable[[argparse.Namespace], int]:
    """The `run` function of coopsim.cli.NAME, imported when it is called."""

    def run(args: argparse.Namespace) -> int:
        code: int = importlib.import_module(f"coopsim.cli.{name}").run(args)
        return code

    return run


def build() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="coopsim",
        description="Find out whether training fits a GPU's memory, and at what cost, without a GPU: run or record a "
        "training script, and replay it in a simulated GPU memory under a budget. Begin with `coopsim fit` or "
        "`coopsim phantom`.",
        epilog="Exit codes: 0 it ran and fits, 1 the judge found a fault, 2 usage or bad input, 3 out of memory, "
        "4 thrash (recomputation exceeds the overhead limit) or lost (a value could not be recomputed).",
    )
    parser.add_argument("--version", action="version", version=f"coopsim {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=Parser)

    def add(name: str, summary: str, module: str | None = None, **options: Any) -> Parser:
        p: Parser = verbs.add_parser(name, help=summary, **({"description": summary} | options))
        p.set_defaults(run=_verb(module or name), verb=name)
        return p

    _capture(add("capture", "record one steady training step of a model, without a GPU"))
    _phantom(
        add(
            "phantom",
            "run an unmodified training script without a GPU: its memory peaks, and why it runs out of memory",
        )
    )
    _fit(add("fit", "find changes to a training script with which it fits a card, each verified by running it"))
    _live(add("live", "train inside a memory budget on stock PyTorch, with the same numbers, bit for bit"))
    _import(
        add(
            "import",
            "make a trace from another tool's file: a log of simrd, or a memory snapshot of PyTorch",
            module="import_",
        )
    )
    _advise(add("advise", "say why memory ran out, and which allocator settings, or recomputation, would have helped"))
    _info(add("info", "show what a trace contains: ops, storages, bytes by role, peak, cost"))
    _replay(add("replay", "replay a trace under a policy and a budget: does it fit, and at what cost"))
    grid.add_sweep(add("sweep", "replay traces over a grid of policies, budgets and options; resumes if interrupted"))
    grid.add_map(
        add("map", "find the budgets that are safe: a fine grid of budgets, refined where the outcome changes")
    )
    _gap(add("gap", "say how far policies are from the least overhead of any schedule in the same bytes"))
    _plan(add("plan", "plan addresses for buffers with known lifetimes: a MiniMalloc CSV, or a trace's storages"))
    _plot(add("plot", "draw a schedule's memory map, a sweep's curves, a feasibility map, a trace's bytes"))
    _report(add("report", "write one HTML file with curves, zoomable memory maps and tables; it needs no network"))
    _validate(add("validate", "check a schedule: it is sound, or which row breaks which rule"))
    summary = "serve requests: PyTorch's caching allocator those of a case, several allocators those of a trace"
    _requests(add("requests", summary, description=f"{summary}. {_ALLOCATORS_HELP}"))
    _export(add("export", "convert a schedule for another tool: PyTorch's memory_viz, or Perfetto"))
    p = add("list", "list the policies, traces, allocators, models and cards that there are", module="list_names")
    p.add_argument(
        "what", nargs="?", choices=("policies", "traces", "allocators", "models", "hardware"), help="default: all"
    )
    p.add_argument("--choices", action="store_true", help="for policies: show the choices that each consists of")
    p.add_argument("--json", action="store_true", help="print JSON")
    p = add("completion", "print a completion script for a shell")
    p.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    p.set_defaults(parser=parser)
    p = add("help", "show help for coopsim, or for one verb", module="help_")
    p.add_argument("about", nargs="?", metavar="VERB", choices=tuple(verbs.choices), help="default: all verbs")
    p.set_defaults(parser=parser)
    return parser


def _capture(p: Parser) -> None:
    p.add_argument("target", metavar="MODEL|FILE.py:FUNCTION", help="a reference model, or your own step function")
    p.add_argument("-o", "--output", metavar="T", required=True, help="trace file to write")
    p.add_argument(
        "--gpu",
        default="a100-80gb",
        metavar="CARD",
        help="card to record for, of `coopsim list hardware` (default: %(default)s)",
    )
    p.add_argument(
        "--device",
        choices=("phantom", "cuda", "fake"),
        default="phantom",
        help="phantom: without a GPU; cuda: on a real GPU, with measured costs; fake: with a PyTorch without CUDA "
        "(default: phantom)",
    )
    p.add_argument(
        "--passes", type=positive, default=5, help="with --device cuda: times that the steps are measured (default: 5)"
    )
    p.add_argument(
        "--cost-from", metavar="TABLE", help="take measured costs from this file: a trace from a real GPU, or CSV"
    )
    p.add_argument(
        "--temporaries-from",
        metavar="TABLE",
        help="take temporaries by op from this file, as a real GPU's allocator saw them",
    )
    p.add_argument(
        "--precision",
        choices=("tf32", "fp32"),
        default="tf32",
        help="of fp32 matrix products, for the costs (default: tf32)",
    )
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
    p.add_argument("--steps", type=positive, default=1, help="record this many consecutive steps (default: 1)")
    p.add_argument("--warmup", type=natural, default=2, help="steps that run before the recorded ones (default: 2)")


def _phantom(p: Parser) -> None:
    actions = p.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
    summary = "run a training command on a phantom GPU, and report how much memory of the card it takes"
    p = actions.add_parser("run", help=summary, description=summary, usage="%(prog)s [options] -- COMMAND ...")
    p.add_argument(
        "command", nargs=argparse.REMAINDER, help="the training command, as in: -- python train.py --epochs 1"
    )
    p.add_argument(
        "--gpu",
        default="a100-80gb",
        metavar="CARD",
        help="card to imitate, of `coopsim list hardware` (default: %(default)s)",
    )
    p.add_argument("--memory", metavar="B", help="memory of the card, if not its own: 11GiB, 24GB")
    p.add_argument("--fit", action="store_true", help="find the smallest memory with which it trains")
    p.add_argument(
        "--largest",
        type=span,
        metavar="LOW:HIGH",
        help="find the largest whole number, such as a batch size, with which it trains; {} in the command marks where "
        "the number goes; the range is widened if the answer lies outside",
    )
    p.add_argument(
        "--tolerance",
        type=tolerance,
        metavar="W",
        help="with --largest: how far below a number that fails the search may stop (default: 1%%; 0%%: next to it)",
    )
    p.add_argument(
        "--compile-budget",
        metavar="B",
        help="find the largest activation_memory_budget of torch.compile with which it trains in this much memory",
    )
    p.add_argument("--world", type=positive, metavar="N", help="run it as a rank of N (default: the launcher's number)")
    p.add_argument(
        "--fewest-ranks", action="store_true", help="find the least number of cards on which such a job fits"
    )
    p.add_argument(
        "--nccl-memory",
        metavar="B",
        help="memory of the card that each NCCL communicator takes: 1GiB, 0B (default: 544 MB with 2 ranks, 688 MB "
        "with more)",
    )
    p.add_argument("--ranks", metavar="0,7|all", help="ranks to run, in a job of several (default: 0)")
    p.add_argument(
        "--snapshot", metavar="F", help="write PyTorch's memory snapshot: when memory runs out, or else at the end"
    )
    p.add_argument("--trace", metavar="T", help="write a trace of steady steps (between calls of Optimizer.step)")
    p.add_argument("--steps", type=positive, default=1, help="steps in the trace (default: 1)")
    p.add_argument("--warmup", type=positive, default=2, help="steps before those in the trace (default: 2)")
    p.add_argument(
        "--precision",
        choices=("tf32", "fp32"),
        default="tf32",
        help="of fp32 matrix products, for the trace's costs (default: tf32)",
    )
    p.add_argument("--traceback", action="store_true", help="show the script's traceback if it fails")
    p.add_argument("--json", action="store_true", help="print one JSON object; the script's own output goes to stderr")


def _fit(p: Parser) -> None:
    p.usage = "%(prog)s --gpu CARD [options] -- COMMAND ..."
    p.add_argument(
        "command", nargs=argparse.REMAINDER, help="the training command, as in: -- python train.py --batch-size {64}"
    )
    p.add_argument("--gpu", required=True, metavar="CARD", help="card to fit on (coopsim list hardware)")
    p.add_argument("--memory", metavar="B", help="memory of the card, if not its own: 11GiB, 24GB")
    p.add_argument(
        "-j", "--jobs", type=positive, metavar="N", help="how many runs of the script at a time (default: 1)"
    )
    p.add_argument(
        "--executor",
        default="processes",
        metavar="WHERE",
        help="where to run: processes, or dask://HOST:PORT, a running cluster (default: processes)",
    )
    what = p.add_mutually_exclusive_group()
    what.add_argument("--apply", type=positive, metavar="N", help="run the script with remedy N; no file is changed")
    what.add_argument(
        "--patch", type=positive, metavar="N", help="print remedy N as a diff, if the lines to change are certain"
    )
    p.add_argument("--json", action="store_true", help="print one JSON object")


def _live(p: Parser) -> None:
    actions = p.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
    summary = (
        "train inside a memory budget, with the same numbers; a step is what lies between two calls of Optimizer.step"
    )
    p = actions.add_parser("run", help=summary, description=summary, usage="%(prog)s [options] -- COMMAND ...")
    _live_common(p, "run")
    p.add_argument(
        "--memory", metavar="B", help="the budget: 8GiB, or 50%% of a step without one (default: the plan's)"
    )
    p.add_argument("--plan", metavar="F", help="plan made by `coopsim live plan`: then the first step is planned, too")
    summary = "plan a script's steps in a memory budget, without a GPU: do they fit, and at what cost?"
    p = actions.add_parser("plan", help=summary, description=summary, usage="%(prog)s [options] -- COMMAND ...")
    _live_common(p, "plan")
    p.add_argument("--memory", required=True, metavar="B", help="the budget: 8GiB")
    p.add_argument("-o", "--output", required=True, metavar="F", help="plan file to write, if it fits")
    p.add_argument(
        "--steps",
        type=positive,
        default=0,
        metavar="N",
        help="how many steps to look at (default: until a kind of step repeats)",
    )


def _live_common(p: Parser, action: str) -> None:
    p.set_defaults(action=action)
    p.add_argument(
        "command", nargs=argparse.REMAINDER, help="the training command, as in: -- python train.py --epochs 1"
    )
    p.add_argument(
        "--policy", default="foresight-offline", help="policy, as for `coopsim replay` (default: %(default)s)"
    )
    p.add_argument(
        "--gpu", metavar="CARD", help="imitate this card on the phantom GPU (default: use this machine's devices)"
    )
    p.add_argument("--traceback", action="store_true", help="show the script's traceback if it fails")
    p.add_argument("--json", action="store_true", help="print one JSON object; the script's own output goes to stderr")


def _import(p: Parser) -> None:
    p.add_argument(
        "format",
        choices=("simrd", "torch-snapshot"),
        help="simrd: a log of DTR's prototype, plain, .gz or .zst; torch-snapshot: written by "
        "torch.cuda.memory._dump_snapshot",
    )
    p.add_argument("log", metavar="F", help="file to read")
    p.add_argument("--device", type=natural, metavar="N", help="device to read, in a snapshot of several")
    p.add_argument("-o", "--output", metavar="T", required=True, help="trace file to write")


def _advise(p: Parser) -> None:
    p.add_argument(
        "file", metavar="F", help="a memory snapshot (written by torch.cuda.memory._dump_snapshot), or a trace"
    )
    memory = p.add_mutually_exclusive_group()
    memory.add_argument(
        "--memory",
        metavar="B",
        help="what PyTorch may reserve: 80GiB, 24GB (default: what it had, for a snapshot of a program that ran out)",
    )
    memory.add_argument(
        "--gpu", metavar="CARD", help="take the memory of this card of `coopsim list hardware`, less its context"
    )
    p.add_argument(
        "--torch",
        metavar="V",
        help="version of PyTorch (default: the one that agrees with the snapshot's history; or the trace's)",
    )
    p.add_argument("--alloc-conf", metavar="STRING", help="value of PYTORCH_CUDA_ALLOC_CONF (default: as recorded)")
    p.add_argument("--conf", action=Renamed, dest="alloc_conf")
    p.add_argument("--device", type=natural, metavar="N", help="device to read, in a snapshot of several")
    p.add_argument("-o", "--output", metavar="DIR|FILE", help="draw the memory at the failure into this folder or file")
    p.add_argument(
        "--all", action="store_true", help="show every setting that was tried, and from which size on policies fit"
    )
    p.add_argument("--json", action="store_true", help="print one JSON object")


def _info(p: Parser) -> None:
    p.add_argument("trace", metavar="T", help="trace file, name of `coopsim list traces`, or synth:NAME")
    p.add_argument("--json", action="store_true", help="print JSON")


def _common(p: Parser) -> None:
    p.add_argument("--steps", type=positive, default=10, help="training steps in one memory (default: 10)")
    p.add_argument(
        "--cost-model",
        choices=COST_MODELS,
        default="cost",
        help="cost of an op that the policy assumes: recorded time, bytes moved, floating point operations, or 1 "
        "(default: cost); the reported cost is always the trace's",
    )
    p.add_argument("--decide-by", action=Renamed, dest="cost_model", choices=COST_MODELS, default="cost")
    p.add_argument(
        "--random",
        choices=("recompute", "keep"),
        default="recompute",
        help="what to do with results of random ops (default: recompute)",
    )
    p.add_argument(
        "--overhead-limit",
        type=float,
        default=10.0,
        metavar="X",
        help="end the replay as `thrash` above X times the cost without recomputation (default: 10)",
    )


def _replay(p: Parser) -> None:
    p.add_argument("trace", metavar="T", help="trace file, name of `coopsim list traces`, or synth:NAME")
    p.add_argument(
        "--policy",
        required=True,
        metavar="P",
        help="a policy of `coopsim list policies`, NAME:choice=value,… to change parts of it, or ./FILE.py:NAME",
    )
    p.add_argument(
        "--allocator",
        help="memory to replay in, of `coopsim list allocators` (default: arena; counter with --semantics simrd)",
    )
    p.add_argument("--torch", metavar="V", help="for cuda-caching: version of PyTorch, 2.6 to 2.15 (default: 2.15.0)")
    p.add_argument("--alloc-conf", metavar="STRING", help="for cuda-caching: value of PYTORCH_CUDA_ALLOC_CONF")
    p.add_argument("--budget", required=True, metavar="B", help=BUDGET_HELP)
    p.add_argument(
        "--semantics",
        choices=("general", "simrd"),
        default="general",
        help="rules of the replay (default: general); simrd: exactly those of DTR's own simulator (docs/simrd.md)",
    )
    _common(p)
    p.set_defaults(steps=None)  # 10, and 1 under the semantics of simrd
    p.add_argument("-o", "--output", metavar="S", help="schedule file to write")
    p.add_argument(
        "--timeline", action="store_true", help="also simulate the schedule's timeline: host, launch queue, GPU stream"
    )
    p.add_argument("--timeline-params", metavar="TOML", help=_PARAMS_HELP)
    p.add_argument("--json", action="store_true", help="print one JSON object")


def _gap(p: Parser) -> None:
    p.add_argument(
        "trace",
        metavar="T",
        help="trace file, name of `coopsim list traces`, or synth:NAME; exact for traces of up to about a hundred ops",
    )
    p.add_argument("--budget", required=True, metavar="B,B|FROM:TO:STEP", help=BUDGET_HELP)
    p.add_argument("--policy", metavar="P,P", help="policies to compare (default: all)")
    p.add_argument(
        "--time-limit",
        type=positive,
        default=60,
        metavar="SECONDS",
        help="time for each budget's optimum (default: 60)",
    )
    p.add_argument(
        "--random",
        choices=("recompute", "keep"),
        default="recompute",
        help="what to do with results of random ops (default: recompute)",
    )
    p.add_argument("--json", action="store_true", help="print JSON")


def _plan(p: Parser) -> None:
    p.add_argument("file", metavar="F.csv|T", help="a CSV (id,lower,upper,size), a trace file, or synth:NAME")
    p.add_argument("-o", "--output", metavar="OUT.csv", help="CSV to write: the same rows with their offsets")
    p.add_argument(
        "--work",
        type=natural,
        metavar="N",
        help="placements that the search may try (default: 12000000, half a minute)",
    )
    p.add_argument("--json", action="store_true", help="print one JSON object")


def _plot(p: Parser) -> None:
    p.add_argument("file", metavar="S|R|M|T", nargs="+", help="schedules, the table of a sweep or of a map, or traces")
    p.add_argument(
        "-o", "--output", metavar="DIR", default=".", help="folder for the figures (default: the current one)"
    )
    p.add_argument(
        "--format", default="png", metavar="F,F", help="formats of the figures: png, pdf, svg (default: png)"
    )
    p.add_argument(
        "--timeline", action="store_true", help="for schedules: draw where the steps' time goes, instead of memory maps"
    )
    p.add_argument("--timeline-params", metavar="TOML", help=_PARAMS_HELP)
    p.add_argument("--trace", metavar="T", help="the schedule's trace (default: searched for by its hash)")


def _report(p: Parser) -> None:
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
    p.add_argument(
        "--band-width",
        type=percent,
        default=0.05,
        metavar="W",
        help="from the lowest to the highest neighbour, in %% of the peak (default: 5%%)",
    )
    _common(p)


def _export(p: Parser) -> None:
    p.add_argument("schedule", metavar="S", help="schedule file")
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--torch-snapshot", metavar="F", help="memory snapshot to write, for PyTorch's memory_viz")
    what.add_argument("--perfetto", metavar="F", help="timeline to write, for Perfetto (JSON; F.gz: compressed)")
    p.add_argument("--timeline-params", metavar="TOML", help=_PARAMS_HELP)
    p.add_argument("--trace", metavar="T", help="the schedule's trace (default: searched for by its hash)")


def _validate(p: Parser) -> None:
    p.add_argument("schedule", metavar="S", help="schedule file")
    p.add_argument("--trace", metavar="T", help="the schedule's trace (default: searched for by its hash)")
    p.add_argument(
        "--against",
        metavar="torch==V|cuda",
        help="also perform it on the real caching allocator: of that PyTorch, without a GPU (downloaded with pip if it "
        "is not installed), or of the installed one, on this machine's GPU",
    )
    p.add_argument(
        "--alloc-conf",
        metavar="STRING",
        help="PYTORCH_CUDA_ALLOC_CONF of the real allocator, for a schedule made in an arena",
    )
    p.add_argument("--json", action="store_true", help="print JSON")


def _requests(p: Parser) -> None:
    p.add_argument(
        "case",
        metavar="CASE|T",
        help="a case: JSON file with conf, total, ops (docs/allocators.md); or a trace, to compare allocators",
    )
    p.add_argument(
        "--torch", default="2.15.0", metavar="V", help="version of PyTorch, 2.6 to 2.15 (default: %(default)s)"
    )
    p.add_argument(
        "--alloc-conf",
        action="append",
        metavar="STRING",
        help="for a trace: also compare PyTorch's allocator with this PYTORCH_CUDA_ALLOC_CONF; may be repeated",
    )
    p.add_argument("--steps", type=positive, metavar="N", help="for a trace: steps to serve (default: as recorded)")
    p.add_argument("--json", action="store_true", help="for a trace: print one JSON object")
