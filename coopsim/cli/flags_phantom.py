"""The options of `phantom run`, each declared once (base/option.py)."""

import argparse
from dataclasses import dataclass

from coopsim.base.option import Excluded, add, option, positive
from coopsim.base.run_options import RunOptions
from coopsim.cli import flags_shared
from coopsim.cli.flags_shared import span

VERB = "phantom run"
_SEVERAL = Excluded("ranks", lambda ranks: ranks is not None and not ranks.isdecimal(), "--ranks of several")
_GATE = ("fit", "largest", "compile_budget", "fewest_ranks", "snapshot", "trace", _SEVERAL)
_WHY_GATE = "--max-memory and --baseline are for one run; leave {} out"


@dataclass(frozen=True, kw_only=True)
class PhantomRun(RunOptions):
    """What is asked of a run: a search over many, a gate, files to write."""

    memory: str | None = option(None, "memory of the card, instead of its own: 11GiB, 24GB", VERB, metavar="B")
    fit: bool = option(False, "find the smallest memory in which it trains", VERB)
    largest: tuple[int, int] | None = option(
        None,
        "find the largest whole number, such as a batch size, with which it trains; {} in the command marks where the "
        "number goes; to 1%%; the range is widened if the answer lies outside",
        VERB,
        parse=span,
        metavar="LOW:HIGH",
        excludes=("fit", "fewest_ranks", "snapshot", "trace"),
        why="--largest runs the script many times; {} is for one run, with the number found",
    )
    compile_budget: str | None = option(
        None,
        "find the largest activation_memory_budget of torch.compile with which it trains in this much memory",
        VERB,
        metavar="B",
        excludes=("memory", "fit", "largest", "fewest_ranks", "snapshot", "trace"),
        why="--compile-budget gives the card these bytes, for many runs; it excludes {}",
    )
    fewest_ranks: bool = option(
        False,
        "find the fewest cards on which such a job fits",
        VERB,
        excludes=("fit", "largest", "ranks", "snapshot", "trace"),
        why="--fewest-ranks runs rank 0 of many worlds; {} is for one that is known",
    )
    max_memory: str | None = option(
        None,
        "fail (exit code 1) if it takes more of the card, the context included",
        VERB,
        metavar="B",
        excludes=_GATE,
        why=_WHY_GATE,
    )
    baseline: str | None = option(
        None,
        "fail (exit code 1) if its peaks are not those in this file, byte for byte",
        VERB,
        metavar="F",
        excludes=_GATE,
        why=_WHY_GATE,
    )
    allow_no_step: bool = option(
        False,
        "with --max-memory or --baseline: a run may pass without an optimizer step",
        VERB,
        requires=("max_memory", "baseline"),
    )
    update: bool = option(False, "with --baseline: write this run's peaks there instead", VERB, requires=("baseline",))
    snapshot: str | None = option(
        None,
        "write PyTorch's memory snapshot: when memory runs out, or else at the end",
        VERB,
        metavar="F",
        excludes=(_SEVERAL,),
        why="--snapshot is for one rank; name it, as in --ranks 0",
    )
    trace: str | None = option(
        None,
        "write a trace of steady steps (between calls of Optimizer.step)",
        VERB,
        metavar="T",
        excludes=(_SEVERAL,),
        why="--trace is for one rank; name it, as in --ranks 0",
    )
    trace_steps: int = option(1, "steps in the trace (default: 1)", VERB, parse=positive, metavar="N")
    warmup: int = option(2, "steps before those in the trace (default: 2)", VERB, parse=positive)
    json: bool = option(False, "print one JSON object; the script's own output goes to stderr", VERB)


def phantom(p: argparse.ArgumentParser) -> None:
    actions = p.add_subparsers(metavar="ACTION", required=True)
    summary = "run a training command on a phantom GPU, and report how much memory of the card it takes"
    p = actions.add_parser("run", help=summary, description=summary, usage="%(prog)s [options] -- COMMAND ...")
    flags_shared.command(p, "train.py --epochs 1")
    flags_shared.gpu(p, "card to imitate", default="a100-80gb")
    add(p, PhantomRun, VERB)
