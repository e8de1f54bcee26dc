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

_PARAMS_HELP = "other prices and queues for the simulation in time (docs/timeline.md)"
_ALLOCATORS_HELP = (
    "For a trace: cuda-caching is PyTorch's; gmlake joins free chunks into large blocks by mapping them again (GMLake, "
    "ASPLOS 2024); planned is what STAlloc does (arXiv 2507.16274; STWeaver in its first version): requests of the "
    "first step get their places from a plan, in one reserved block, and what was not planned goes to an allocator "
    "beside it"
)
COST_MODELS = tuple(str(model) for model in CostModel)
BUDGET_HELP = "6GiB, 4096MiB, 24GB (of 10^9), 123456B, or 60%% of the peak without eviction"


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
        description="Record a training step, replay it in a simulated GPU memory under a budget, and see what fits.",
        epilog="Exit codes: 0 it ran and fits, 1 the judge found a fault, 2 usage or bad input, 3 out of memory, "
        "4 thrash or lost.",
    )
    parser.add_argument("--version", action="version", version=f"coopsim {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=Parser)

    def add(name: str, summary: str, module: str | None = None, **options: Any) -> Parser:
        p: Parser = verbs.add_parser(name, help=summary, **({"description": summary} | options))
        p.set_defaults(run=_verb(module or name), verb=name)
        return p

    _capture(add("capture", "record one steady training step of a model, without a GPU"))
    _phantom(
        add("phantom", "run an unmodified training script without a GPU: peaks, smallest memory, what ran out of it")
    )
    _fit(add("fit", "what to change of a training script so that it fits a card: remedies that were tried and work"))
    _live(add("live", "train inside a budget of memory on stock PyTorch, with the same numbers, bit for bit"))
    _import(add("import", "make a trace of what another tool wrote", module="import_"))
    _advise(add("advise", "why memory ran out, and which allocator settings, or recomputation, would have helped"))
    _info(add("info", "what a trace holds: ops, storages, bytes by role, peak, cost"))
    _replay(add("replay", "replay a trace under a policy and a budget"))
    grid.add_sweep(
        add("sweep", "replay traces over a grid of policies, budgets and options; goes on where it was cut off")
    )
    grid.add_map(add("map", "which budgets are safe: all on a fine grid, closer where the outcome changes"))
    _gap(add("gap", "how far policies are from the least overhead that any schedule could have in the same bytes"))
    _plan(add("plan", "give buffers with known lifetimes their places: a MiniMalloc CSV, or a trace's storages"))
    _plot(add("plot", "draw a schedule's memory map, a sweep's curves, a feasibility map"))
    _report(add("report", "one HTML file to look at replays in: curves, memory maps to zoom into, tables; no network"))
    _validate(add("validate", "judge a schedule: sound, or which row breaks which rule"))
    summary = "what PyTorch's caching allocator answers to a case; what each allocator reserves for a trace"
    _requests(add("requests", summary, description=f"{summary}. {_ALLOCATORS_HELP}"))
    _export(add("export", "make of a schedule what another tool shows"))
    p = add("list", "what there is to choose from", module="list_names")
    p.add_argument(
        "what", nargs="?", choices=("policies", "traces", "allocators", "models", "hardware"), help="default: all"
    )
    p.add_argument("--choices", action="store_true", help="of policies: the choices that each is made of")
    p.add_argument("--json", action="store_true", help="print JSON")
    p = add("completion", "print what makes a shell complete coopsim's commands and options")
    p.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    p.set_defaults(parser=parser)
    p = add("help", "explain coopsim, or one of its verbs", module="help_")
    p.add_argument("about", nargs="?", metavar="VERB", choices=tuple(verbs.choices), help="default: all verbs")
    p.set_defaults(parser=parser)
    return parser


def _capture(p: Parser) -> None:
    p.add_argument("target", metavar="MODEL|FILE.py:FUNCTION", help="a reference model, or your own step function")
    p.add_argument("-o", "--output", metavar="T", required=True, help="trace file to write")
    p.add_argument("--gpu", default="a100-80gb", metavar="CARD", help="card to record for (default: %(default)s)")
    p.add_argument(
        "--device",
        choices=("phantom", "cuda", "fake"),
        default="phantom",
        help="cuda: a real GPU, which measures the costs; fake: for a PyTorch without CUDA (default: phantom)",
    )
    p.add_argument("--passes", type=positive, default=5, help="times that a real GPU runs the steps (default: 5)")
    p.add_argument("--cost-from", metavar="TABLE", help="measured costs: a trace from a real GPU, or CSV")
    p.add_argument("--temporaries-from", metavar="TABLE", help="temporaries by op that a real GPU's allocator saw")
    p.add_argument(
        "--precision", choices=("tf32", "fp32"), default="tf32", help="of fp32 matrix products, for the cost"
    )
    p.add_argument("--batch", type=positive, help="batch size of a reference model (default: its own)")
    p.add_argument(
        "--optimizer", choices=("sgd", "momentum", "adam", "adamw"), help="of a reference model (default: its own)"
    )
    p.add_argument("--amp", choices=("bf16",), help="train a reference model under autocast")
    p.add_argument("--attention", choices=("eager", "sdpa"), help="of a reference model that has it (default: its own)")
    p.add_argument("--steps", type=positive, default=1, help="record this many consecutive steps (default: 1)")
    p.add_argument("--warmup", type=natural, default=2, help="steps before the recorded one (default: 2)")


def _phantom(p: Parser) -> None:
    actions = p.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
    summary = "run a command that trains on a GPU on a phantom one, and say what it takes of a card"
    p = actions.add_parser("run", help=summary, description=summary, usage="%(prog)s [options] -- COMMAND ...")
    p.add_argument("command", nargs=argparse.REMAINDER, help="as in: -- python train.py --epochs 1")
    p.add_argument("--gpu", default="a100-80gb", metavar="CARD", help="card to imitate (default: %(default)s)")
    p.add_argument("--memory", metavar="B", help="give the card this much memory: 11GiB, 24GB")
    p.add_argument("--fit", action="store_true", help="find the smallest memory with which it trains")
    p.add_argument(
        "--largest",
        type=span,
        metavar="LOW:HIGH",
        help="find the largest whole number with which it trains; the command has {} where the number goes; the range "
        "is widened if the answer lies outside",
    )
    p.add_argument(
        "--tolerance",
        type=tolerance,
        metavar="W",
        help="of --largest: how far below the number that fails the search may end (default: 1%%; 0%%: next to it)",
    )
    p.add_argument(
        "--compile-budget",
        metavar="B",
        help="find the largest activation_memory_budget of torch.compile with which it trains in this much memory",
    )
    p.add_argument("--world", type=positive, metavar="N", help="run it as a rank of N (default: as the launcher says)")
    p.add_argument(
        "--fewest-ranks", action="store_true", help="find the least number of cards on which such a job fits"
    )
    p.add_argument(
        "--nccl-memory",
        metavar="B",
        help="what each communicator of NCCL takes of the card: 1GiB, 0B (default: 544 MB of 2 ranks, 688 MB of more)",
    )
    p.add_argument("--ranks", metavar="0,7|all", help="of a job of several ranks: those to run (default: 0)")
    p.add_argument("--snapshot", metavar="F", help="write torch's memory snapshot: at the failure, or else at the end")
    p.add_argument("--trace", metavar="T", help="write a trace of steady steps (between calls of Optimizer.step)")
    p.add_argument("--steps", type=positive, default=1, help="steps in the trace (default: 1)")
    p.add_argument("--warmup", type=positive, default=2, help="steps before them (default: 2)")
    p.add_argument(
        "--precision", choices=("tf32", "fp32"), default="tf32", help="of fp32 matrix products, for the trace's costs"
    )
    p.add_argument("--traceback", action="store_true", help="show the script's traceback where it fails")
    p.add_argument("--json", action="store_true", help="print one JSON object; the script's own output goes to stderr")


def _fit(p: Parser) -> None:
    p.usage = "%(prog)s --gpu CARD [options] -- COMMAND ..."
    p.add_argument("command", nargs=argparse.REMAINDER, help="as in: -- python train.py --batch-size {64}")
    p.add_argument("--gpu", required=True, metavar="CARD", help="card to fit on (coopsim list hardware)")
    p.add_argument("--memory", metavar="B", help="give the card this much memory: 11GiB, 24GB")
    p.add_argument("-j", "--jobs", type=positive, metavar="N", help="runs of the script at a time (default: 1)")
    p.add_argument(
        "--executor",
        default="processes",
        metavar="WHERE",
        help="processes, or dask://HOST:PORT, a running cluster (default: processes)",
    )
    what = p.add_mutually_exclusive_group()
    what.add_argument("--apply", type=positive, metavar="N", help="run the script with remedy N; no file is changed")
    what.add_argument("--patch", type=positive, metavar="N", help="print remedy N as a diff, if its place is certain")
    p.add_argument("--json", action="store_true", help="print one JSON object")


def _live(p: Parser) -> None:
    actions = p.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
    summary = (
        "train inside a budget of memory, with the same numbers; a step is what lies between calls of Optimizer.step"
    )
    p = actions.add_parser("run", help=summary, description=summary, usage="%(prog)s [options] -- COMMAND ...")
    _live_common(p, "run")
    p.add_argument(
        "--memory", metavar="B", help="the budget: 8GiB, or 50%% of a step without one (default: the plan's)"
    )
    p.add_argument("--plan", metavar="F", help="of coopsim live plan: the first step goes by it, too")
    summary = "make the plan of a script's steps in a budget, before there is a GPU: does it fit, at what cost?"
    p = actions.add_parser("plan", help=summary, description=summary, usage="%(prog)s [options] -- COMMAND ...")
    _live_common(p, "plan")
    p.add_argument("--memory", required=True, metavar="B", help="the budget: 8GiB")
    p.add_argument("-o", "--output", required=True, metavar="F", help="plan file to write, if it fits")
    p.add_argument(
        "--steps", type=positive, default=0, metavar="N", help="to look at (default: until a kind of step comes again)"
    )


def _live_common(p: Parser, action: str) -> None:
    p.set_defaults(action=action)
    p.add_argument("command", nargs=argparse.REMAINDER, help="as in: -- python train.py --epochs 1")
    p.add_argument("--policy", default="foresight-offline", help="as for replay (default: %(default)s)")
    p.add_argument("--gpu", metavar="CARD", help="on the phantom GPU, as this card (default: this machine's devices)")
    p.add_argument("--traceback", action="store_true", help="show the script's traceback where it fails")
    p.add_argument("--json", action="store_true", help="print one JSON object; the script's own output goes to stderr")


def _import(p: Parser) -> None:
    p.add_argument(
        "format",
        choices=("simrd", "torch-snapshot"),
        help="simrd: a log of DTR's prototype, plain, .gz or .zst; torch-snapshot: of torch.cuda.memory._dump_snapshot",
    )
    p.add_argument("log", metavar="F", help="file to read")
    p.add_argument("--device", type=natural, metavar="N", help="of a snapshot of several devices")
    p.add_argument("-o", "--output", metavar="T", required=True, help="trace file to write")


def _advise(p: Parser) -> None:
    p.add_argument("file", metavar="F", help="memory snapshot (torch.cuda.memory._dump_snapshot), or trace")
    memory = p.add_mutually_exclusive_group()
    memory.add_argument(
        "--memory",
        metavar="B",
        help="what PyTorch may reserve: 80GiB, 24GB (default: what it had, if a snapshot ran out)",
    )
    memory.add_argument(
        "--gpu", metavar="CARD", help="the memory of this card (coopsim list hardware), less its context"
    )
    p.add_argument("--torch", metavar="V", help="version (default: the one that follows the history; or the trace's)")
    p.add_argument("--alloc-conf", metavar="STRING", help="what PYTORCH_CUDA_ALLOC_CONF holds (default: as recorded)")
    p.add_argument("--conf", action=Renamed, dest="alloc_conf")
    p.add_argument("--device", type=natural, metavar="N", help="of a snapshot of several devices")
    p.add_argument("-o", "--output", metavar="DIR|FILE", help="draw the memory at the failure")
    p.add_argument(
        "--all", action="store_true", help="show every setting that was tried; search from which size on policies fit"
    )
    p.add_argument("--json", action="store_true", help="print one JSON object")


def _info(p: Parser) -> None:
    p.add_argument("trace", metavar="T", help="trace file, or synth:NAME")
    p.add_argument("--json", action="store_true", help="print JSON")


def _common(p: Parser) -> None:
    p.add_argument("--steps", type=positive, default=10, help="training steps in one memory (default: 10)")
    p.add_argument(
        "--cost-model",
        choices=COST_MODELS,
        default="cost",
        help="the cost that the policy decides with (default: cost); the reported cost is the trace's",
    )
    p.add_argument("--decide-by", action=Renamed, dest="cost_model", choices=COST_MODELS, default="cost")
    p.add_argument("--random", choices=("recompute", "keep"), default="recompute", help="results of random ops")
    p.add_argument("--overhead-limit", type=float, default=10.0, metavar="X", help="beyond: thrash (default: 10)")


def _replay(p: Parser) -> None:
    p.add_argument("trace", metavar="T", help="trace file, or synth:NAME")
    p.add_argument(
        "--policy", required=True, metavar="P", help="a name of `coopsim list policies`, or NAME:choice=value,…"
    )
    p.add_argument("--allocator", help="default: arena; counter under the semantics of simrd")
    p.add_argument("--torch", metavar="V", help="of cuda-caching: version of PyTorch, 2.6 to 2.15 (default: 2.15.0)")
    p.add_argument("--alloc-conf", metavar="STRING", help="of cuda-caching: what PYTORCH_CUDA_ALLOC_CONF holds")
    p.add_argument("--budget", required=True, metavar="B", help=BUDGET_HELP)
    p.add_argument(
        "--semantics",
        choices=("general", "simrd"),
        default="general",
        help="simrd: exactly what DTR's own simulator does, one step in a counter (docs/simrd.md)",
    )
    _common(p)
    p.set_defaults(steps=None)  # 10, and 1 under the semantics of simrd
    p.add_argument("-o", "--output", metavar="S", help="schedule file to write")
    p.add_argument(
        "--timeline", action="store_true", help="simulate the schedule in time: host, launch queue, GPU stream"
    )
    p.add_argument("--timeline-params", metavar="TOML", help=_PARAMS_HELP)
    p.add_argument("--json", action="store_true", help="print one JSON object")


def _gap(p: Parser) -> None:
    p.add_argument("trace", metavar="T", help="trace file, or synth:NAME; some tens of ops for an exact answer")
    p.add_argument("--budget", required=True, metavar="B,B|FROM:TO:STEP", help=BUDGET_HELP)
    p.add_argument("--policy", metavar="P,P", help="default: all")
    p.add_argument(
        "--time-limit", type=positive, default=60, metavar="SECONDS", help="for each budget's optimum (default: 60)"
    )
    p.add_argument("--random", choices=("recompute", "keep"), default="recompute", help="results of random ops")
    p.add_argument("--json", action="store_true", help="print JSON")


def _plan(p: Parser) -> None:
    p.add_argument("file", metavar="F.csv|T", help="a CSV (id,lower,upper,size), a trace file, or synth:NAME")
    p.add_argument("-o", "--output", metavar="OUT.csv", help="the same rows with their offsets")
    p.add_argument(
        "--work",
        type=natural,
        metavar="N",
        help="placements that the search may try (default: 12000000, half a minute)",
    )
    p.add_argument("--json", action="store_true", help="print one JSON object")


def _plot(p: Parser) -> None:
    p.add_argument("file", metavar="S|R|M", nargs="+", help="schedules, or the table of a sweep or of a map")
    p.add_argument("-o", "--output", metavar="DIR", default=".", help="folder for the figures (default: here)")
    p.add_argument("--format", default="png", metavar="F,F", help="png, pdf, svg (default: png)")
    p.add_argument(
        "--timeline", action="store_true", help="of schedules: draw where the steps' time goes, in place of memory maps"
    )
    p.add_argument("--timeline-params", metavar="TOML", help=_PARAMS_HELP)
    p.add_argument("--trace", metavar="T", help="the schedule's trace (default: looked for by its hash)")


def _report(p: Parser) -> None:
    p.add_argument("traces", metavar="T", nargs="+", help="trace files, or synth:NAME")
    p.add_argument("-o", "--output", metavar="F.html", required=True, help="page to write")
    p.add_argument("--policy", default=grid.POLICIES, metavar="P,P", help="default: %(default)s")
    p.add_argument("--budget", default=grid.BUDGETS, metavar="B,B|FROM:TO:STEP", help="default: %(default)s")
    p.add_argument(
        "--band", type=positive, default=5, metavar="N", help="neighbouring budgets for each in curves (default: 5)"
    )
    p.add_argument("--band-width", type=percent, default=0.05, metavar="W", help="lowest to highest (default: 5%%)")
    _common(p)


def _export(p: Parser) -> None:
    p.add_argument("schedule", metavar="S", help="schedule file")
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--torch-snapshot", metavar="F", help="memory snapshot to write, for PyTorch's memory_viz")
    what.add_argument(
        "--perfetto", metavar="F", help="JSON of the schedule in time to write, for Perfetto; F.gz: compressed"
    )
    p.add_argument("--timeline-params", metavar="TOML", help=_PARAMS_HELP)
    p.add_argument("--trace", metavar="T", help="its trace (default: looked for by its hash)")


def _validate(p: Parser) -> None:
    p.add_argument("schedule", metavar="S", help="schedule file")
    p.add_argument("--trace", metavar="T", help="its trace (default: looked for by its hash)")
    p.add_argument(
        "--against",
        metavar="torch==V|cuda",
        help="also perform it on the real caching allocator: of that PyTorch, without a GPU (fetched with pip if it is "
        "not installed), or of the installed one, on this machine's GPU",
    )
    p.add_argument("--alloc-conf", metavar="STRING", help="settings of the real allocator, for a schedule of an arena")
    p.add_argument("--json", action="store_true", help="print JSON")


def _requests(p: Parser) -> None:
    p.add_argument(
        "case", metavar="CASE|T", help="JSON file: conf, total, ops (docs/allocators.md); or a trace, to compare"
    )
    p.add_argument("--torch", default="2.15.0", metavar="V", help="PyTorch, 2.6 to 2.15 (default: %(default)s)")
    p.add_argument(
        "--alloc-conf",
        action="append",
        metavar="STRING",
        help="of a trace: compare PYTORCH_CUDA_ALLOC_CONF with this, too; again for each",
    )
    p.add_argument("--steps", type=positive, metavar="N", help="of a trace (default: as recorded)")
    p.add_argument("--json", action="store_true", help="of a trace: print one JSON object")
