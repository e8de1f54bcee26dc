"""The parser of the command line. Imports the standard library only, as `coopsim --help` must answer at once."""

import argparse
import importlib
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from coopsim.base.errors import unknown
from coopsim.version import __version__

_ALLOCATORS_HELP = (
    "cuda-caching is PyTorch's allocator; gmlake stitches free chunks into large blocks by remapping them "
    "(GMLake, ASPLOS 2024); planned follows STAlloc (arXiv 2507.16274; called STWeaver in its first version): requests "
    "of the first step get planned addresses in one reserved block, and unplanned requests go to a second allocator; "
    "planned:release has the rules of STAlloc's released program, which plans two steps"
)


#: Programs run in a GPU's memory, traces are replayed in a budget: each option is taken for the other.
_OTHERWISE = {"--memory": "--budget", "--budget": "--memory"}


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
            if (other := _OTHERWISE.get(name or "")) in known:
                message = f"unknown option {name!r}; did you mean {other}?"
            elif name is not None:
                message = str(unknown("option", name, known))
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


def build(words: Sequence[str] | None = None) -> Parser:
    """Return the parser of the whole command line; given its words, only verbs among them have their flags."""
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
    for name, where, summary in _VERBS:
        more = f"{summary}. {_ALLOCATORS_HELP}" if name == "requests" else summary
        p: Parser = verbs.add_parser(name, help=summary, description=more)
        p.set_defaults(run=_verb(_MODULES.get(name, name)), verb=name)
        if where and (words is None or name in words):
            module, _, function = where.partition(".")
            getattr(importlib.import_module(f"coopsim.cli.{module}"), function)(p)
    for name, argument, how in (
        ("completion", "shell", {"choices": ("bash", "zsh", "tcsh")}),
        (
            "help",
            "about",
            {"nargs": "?", "metavar": "VERB", "choices": tuple(verbs.choices), "help": "default: all verbs"},
        ),
    ):
        p = verbs.choices[name]
        p.add_argument(argument, **how)
        p.set_defaults(parser=parser)
    return parser


_MODULES = {"import": "import_", "list": "list_names", "setup-torch": "setup_torch", "help": "help_"}
#: Name, the function that adds its flags, and what it does.
_VERBS = (
    ("capture", "flags_scripts.capture", "record one steady training step of a model, without a GPU"),
    (
        "phantom",
        "flags_phantom.phantom",
        "run an unmodified training script without a GPU: its memory peaks, and why it runs out of memory",
    ),
    (
        "fit",
        "flags_scripts.fit",
        "find changes to a training script with which it fits a card, each verified by running it",
    ),
    ("live", "flags_scripts.live", "train inside a memory budget on stock PyTorch, with the same numbers, bit for bit"),
    ("calibrate", "flags_shared.calibrate", "measure this machine's GPU in five minutes, for --gpu FILE"),
    ("import", "flags_files.import_", "make a trace from another tool's file: a memory snapshot of PyTorch"),
    (
        "advise",
        "flags_files.advise",
        "say why memory ran out, and which allocator settings, or recomputation, would have helped",
    ),
    ("info", "flags_files.info", "show what a trace contains: ops, storages, bytes by role, peak, cost"),
    ("replay", "flags_replays.replay", "replay a trace under a policy and a budget: does it fit, and at what cost"),
    ("sweep", "grid.add_sweep", "replay traces over a grid of policies, budgets and options; resumes if interrupted"),
    (
        "map",
        "grid.add_map",
        "find the budgets that are safe: a fine grid of budgets, refined where the outcome changes",
    ),
    ("gap", "flags_replays.gap", "say how far policies are from the least overhead of any schedule in the same bytes"),
    (
        "plan",
        "flags_files.plan",
        "plan addresses for buffers with known lifetimes: a MiniMalloc CSV, or a trace's storages",
    ),
    ("plot", "flags_files.plot", "draw a schedule's memory map, a sweep's curves, a feasibility map, a trace's bytes"),
    (
        "report",
        "flags_replays.report",
        "write one HTML file with curves, zoomable memory maps and tables; it needs no network",
    ),
    ("validate", "flags_files.validate", "check whether a schedule is sound, and if not, which row breaks which rule"),
    (
        "requests",
        "flags_files.requests",
        "serve a trace's memory requests by several allocators, without eviction: what each reserves",
    ),
    ("export", "flags_files.export", "convert a schedule for another tool: PyTorch's memory_viz, or Perfetto"),
    ("list", "flags_files.list_", "list policies, traces, allocators, models and cards"),
    (
        "setup-torch",
        "flags_files.setup_torch",
        "install PyTorch's CUDA build without CUDA's libraries here, for the commands that run a training script",
    ),
    ("completion", "", "print a completion script for a shell"),
    ("help", "", "show help for coopsim, or for one verb"),
)
