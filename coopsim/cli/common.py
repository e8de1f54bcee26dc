"""Functions that several verbs share.

The real allocator that `--against` names.
"""

import argparse
from pathlib import Path
from typing import Any

from coopsim.base.progress import note
from coopsim.base.types import NEWEST_TORCH, CoopsimError


def is_trace(path: str) -> bool:
    """Return whether a path is a trace, by file or by name, and not another tool's file.

    Raises CoopsimError if it cannot be read.
    """
    if path.startswith("synth:"):
        return True
    if not Path(path).exists() and not Path(path).suffix:
        from coopsim.trace.named import shipped_file

        return shipped_file(path).is_file()
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as e:
        raise CoopsimError(f"{path}: {'no such file' if isinstance(e, FileNotFoundError) else e.strerror}") from None


def command_of(args: argparse.Namespace, verb: str) -> tuple[str, ...]:
    """Return the command after `--`. Raises CoopsimError, with `verb` in its example, if there is none."""
    command = tuple(args.command[1:] if args.command[:1] == ["--"] else args.command)
    if not command:
        raise CoopsimError(f"name the command to run after --, as in: coopsim {verb} -- python train.py")
    return command


def timeline_params(args: argparse.Namespace) -> Any:
    """Return the parameters that `--timeline-params` names, or else the defaults; None without `--timeline`.

    A verb that has no option `--timeline` always gets parameters.
    """
    if args.timeline_params is None and not getattr(args, "timeline", True):
        return None
    from coopsim.simulate.timeline import load_params

    return load_params(args.timeline_params)


def real_allocator(against: str) -> Any:
    """Return the real allocator that --against names. Raises CoopsimError for a name of no such form."""
    from coopsim.simulate.allocators.caching.version import find
    from coopsim.study.oracle import gpu, oracle
    from coopsim.study.oracle.gpu import load

    if against == "cuda":
        return gpu()
    if against.endswith((".json", ".json.gz")):
        return load(against)
    name, _, version = against.partition("==")
    if name != "torch" or not version:
        raise CoopsimError(
            f"--against {against}: write torch==VERSION, such as torch=={NEWEST_TORCH}, or cuda, or a file of answers"
        )
    find(version)  # raises for a version that is not simulated
    note(f"preparing the allocator of torch {version}")
    return oracle(version, fetch=True)
