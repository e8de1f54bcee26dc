"""The parser of the command line. Imports the standard library only, as `coopsim --help` must answer at once."""

import argparse
import importlib
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from coopsim.base.errors import unknown
from coopsim.cli import flags_files, flags_phantom, flags_replays, flags_scripts, flags_shared, grid
from coopsim.version import __version__

_ALLOCATORS_HELP = (
    "cuda-caching is PyTorch's allocator; gmlake stitches free chunks into large blocks by remapping them "
    "(GMLake, ASPLOS 2024); planned follows STAlloc (arXiv 2507.16274; called STWeaver in its first version): requests "
    "of the first step get planned addresses in one reserved block, and unplanned requests go to a second allocator; "
    "planned:release has the rules of STAlloc's released program, which plans two steps"
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and report an unknown option rather than a missing one."""

    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but report leftover arguments here, as the verb's parser knows the likely options."""
        self._words = sys.argv[1:] if args is None else args
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def _parse_optional(self, arg_string: str) -> Any:
        """Take words such as -50% and -5s as values, of which the option's type says what is wrong."""
        return None if re.match(r"-\.?\d", arg_string) else super()._parse_optional(arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Suggest what was meant in place of a value that is none of an argument's choices."""
        if action.choices is None or value in action.choices:
            return
        what = action.metavar if isinstance(action.metavar, str) else action.dest
        named = action.option_strings[-1] if action.option_strings else str(what).lower()
        raise argparse.ArgumentError(None, str(unknown(named, str(value), [str(choice) for choice in action.choices])))

    def error(self, message: str) -> NoReturn:
        if message.startswith(("unrecognized arguments", "the following arguments are required")):
            known = [name for name in self._option_string_actions if name.startswith("--")]
            name = next((name for name in self._options() if not any(k.startswith(name) for k in known)), None)
            message = message if name is None else str(unknown("option", name, known))
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)

    def _options(self) -> list[str]:
        """Return the long options that were given, up to a script's command."""
        words = itertools.takewhile(lambda word: word != "--", self._words)
        return [word.partition("=")[0] for word in words if word.startswith("--")]


def _verb(name: str) -> Callable[[argparse.Namespace], int]:
    """Return the `run` function of coopsim.cli.NAME, which is imported when it is called."""

    def run(args: argparse.Namespace) -> int:
        code: int = importlib.import_module(f"coopsim.cli.{name}").run(args)
        return code

    return run


def build() -> Parser:
    """Return the parser of the whole command line."""
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

    flags_scripts.capture(add("capture", "record one steady training step of a model, without a GPU"))
    flags_phantom.phantom(
        add(
            "phantom",
            "run an unmodified training script without a GPU: its memory peaks, and why it runs out of memory",
        )
    )
    flags_scripts.fit(
        add("fit", "find changes to a training script with which it fits a card, each verified by running it")
    )
    flags_scripts.live(add("live", "train inside a memory budget on stock PyTorch, with the same numbers, bit for bit"))
    flags_shared.calibrate(add("calibrate", "measure this machine's GPU in five minutes, for --gpu FILE"))
    flags_files.import_(
        add(
            "import",
            "make a trace from another tool's file: a memory snapshot of PyTorch",
            module="import_",
        )
    )
    flags_files.advise(
        add("advise", "say why memory ran out, and which allocator settings, or recomputation, would have helped")
    )
    flags_files.info(add("info", "show what a trace contains: ops, storages, bytes by role, peak, cost"))
    flags_replays.replay(add("replay", "replay a trace under a policy and a budget: does it fit, and at what cost"))
    grid.add_sweep(add("sweep", "replay traces over a grid of policies, budgets and options; resumes if interrupted"))
    grid.add_map(
        add("map", "find the budgets that are safe: a fine grid of budgets, refined where the outcome changes")
    )
    flags_replays.gap(add("gap", "say how far policies are from the least overhead of any schedule in the same bytes"))
    flags_files.plan(
        add("plan", "plan addresses for buffers with known lifetimes: a MiniMalloc CSV, or a trace's storages")
    )
    flags_files.plot(add("plot", "draw a schedule's memory map, a sweep's curves, a feasibility map, a trace's bytes"))
    flags_replays.report(
        add("report", "write one HTML file with curves, zoomable memory maps and tables; it needs no network")
    )
    flags_files.validate(add("validate", "check whether a schedule is sound, and if not, which row breaks which rule"))
    summary = "serve a trace's memory requests by several allocators, without eviction: what does each reserve?"
    flags_files.requests(add("requests", summary, description=f"{summary}. {_ALLOCATORS_HELP}"))
    flags_files.export(add("export", "convert a schedule for another tool: PyTorch's memory_viz, or Perfetto"))
    p = add("list", "list policies, traces, allocators, models and cards", module="list_names")
    p.add_argument(
        "what",
        nargs="?",
        choices=("policies", "traces", "allocators", "models", "hardware", "links"),
        metavar="KIND",
        help="policies, traces, allocators, models, hardware or links (default: all)",
    )
    p.add_argument("--choices", action="store_true", help="for policies: show the choices that each consists of")
    p.add_argument("--json", action="store_true", help="print JSON")
    p = add(
        "setup-torch",
        "install PyTorch's CUDA build without CUDA's libraries here, for the commands that run a training script",
        module="setup_torch",
    )
    p.add_argument("version", nargs="?", help="of torch (default: the one that coopsim is tested with)")
    p = add("completion", "print a completion script for a shell")
    p.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    p.set_defaults(parser=parser)
    p = add("help", "show help for coopsim, or for one verb", module="help_")
    p.add_argument("about", nargs="?", metavar="VERB", choices=tuple(verbs.choices), help="default: all verbs")
    p.set_defaults(parser=parser)
    return parser
