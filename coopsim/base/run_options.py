"""The options of runs on the phantom GPU, each declared once (option.py): add one here, and use it where it is meant.

What a script's process is told (run/task.py), what a script (run/script.py) and a captured step (record/capture/job.py)
are run with, the flags of the verbs, and the parameters of coopsim.fit and coopsim.capture are these fields.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from coopsim.base import budget
from coopsim.base.errors import of_type
from coopsim.base.option import option, positive
from coopsim.base.types import CoopsimError, Precision

#: What masks keep; "": all, with tokens routed evenly to experts.
MaskChoice = Literal["", "all", "half", "none"]
#: What cuDNN asks for beside tensors; "": what is nearer to measurements of the card.
WorkspaceChoice = Literal["", "rule", "none"]
_ONE_RUN = ("fit", "snapshot", "trace", "largest", "compile_budget", "fewest_ranks", "baseline")


def _steps(name: str, value: Any) -> None:
    of_type(name, value, int, "a number of steps")
    if value < 1:
        raise CoopsimError(f"{name} {value}: at least one step")


def _file(name: str, value: Any) -> None:
    if not isinstance(value, str) and not hasattr(value, "__fspath__"):
        raise CoopsimError(f"{name}: {value!r} is no file's name")


@dataclass(frozen=True, kw_only=True)
class InProcess:
    """What the processes of a script, or of a captured step, are told of it."""

    precision: Precision | None = option(
        None,
        "precision of float32 products, for predicted times (default: {said})",
        said=dict.fromkeys(("phantom run", "fit"), "as the script sets it")
        | {"capture": "as a file sets it, tf32 for a reference model, which is trained in it, too"},
        choices=get_args(Precision),
        in_key=True,
    )
    masks: str = option(
        "",
        "what boolean masks, nonzero, unique and the like keep, whose data do not exist without a GPU (default: all, "
        "an upper bound, with tokens routed evenly to experts; where there is one, `phantom run` and `fit` also say "
        "what the script takes if masks keep nothing)",
        "phantom run",
        "fit",
        "capture",
        "live",
        "gate",
        choices=get_args(MaskChoice)[1:],
        in_key=True,
    )


@dataclass(frozen=True, kw_only=True)
class OnPhantom(InProcess):
    """How the phantom GPU behaves, too."""

    workspaces: WorkspaceChoice = option(
        "",
        "what cuDNN takes beside tensors for convolutions and recurrent layers: as rules from an H100's measurements "
        "say, or nothing (default: rule on cards of compute capability 9.0, else none)",
        "phantom run",
        "fit",
        "capture",
        choices=get_args(WorkspaceChoice)[1:],
        in_key=True,
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions(OnPhantom):
    """How long a script runs, and as which ranks, too. None: as the script does."""

    steps: int | None = option(
        None,
        "end {said} after N optimizer steps",
        said={"phantom run": "the script", "fit": "every run"},
        parse=positive,
        metavar="N",
        check=_steps,
        in_key=True,
    )
    replay_steps: int | None = option(
        None,
        "go on to step N by replaying the requests of the steps that ran, of lengths drawn from theirs",
        "phantom run",
        "fit",
        parse=positive,
        metavar="N",
        check=_steps,
        excludes=_ONE_RUN,
        why="--replay-steps and {} exclude each other",
        in_key=True,
    )
    lengths: str | None = option(
        None,
        "replay steps of these lengths instead: a line per step, the length of its inputs",
        "phantom run",
        "fit",
        metavar="FILE",
        check=_file,
        excludes=_ONE_RUN,
        why="--lengths and {} exclude each other",
    )
    world_size: int | None = option(
        None,
        "run it as one of N ranks (default: the launcher's number)",
        "phantom run",
        flag="--world",
        parse=positive,
        metavar="N",
    )
    ranks: str | None = option(None, "ranks to run, in a job of several (default: 0)", "phantom run", metavar="0,7|all")
    nccl_bytes: int | None = option(
        None,
        "memory of the card that each NCCL communicator takes: 1GiB, 0B (default: 544 MB with 2 ranks, 688 MB with "
        "more)",
        "phantom run",
        flag="--nccl-memory",
        parse=lambda text: 0 if text == "0B" else budget.parse(text, None, "--nccl-memory"),
        metavar="B",
    )
