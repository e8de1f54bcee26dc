"""`coopsim fit` as functions of Python: find remedies, and run a script with one."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coopsim.base.errors import of_type
from coopsim.base.option import takes
from coopsim.base.progress import note
from coopsim.base.run_options import RunOptions
from coopsim.base.types import CoopsimError
from coopsim.fitting.editing.copies import copied
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.searching.launching import changed
from coopsim.fitting.searching.search import Search
from coopsim.fitting.verdict import Fit
from coopsim.run import Report, Script, run
from coopsim.run.memory import of_card


@takes(RunOptions, "fit")
def fit(
    script: str | Path | Sequence[str],
    *,
    gpu: str,
    memory: str | None = None,
    jobs: int = 1,
    seconds: float | None = None,
    **options: Any,
) -> Fit:
    """Find what to change in a training script so that it fits a card: remedies that were tried on the phantom GPU.

    script: a file, or a command as in a shell, `"train.py --batch {}"`, or its words. gpu: a card (`coopsim list
    hardware`, or a card file); memory: what it is to have, "11GiB" (None: its own). jobs: how many runs of the script
    at a time; seconds: the time after which it returns what is known (None: it tries everything); masks: what boolean
    masks, nonzero and the like keep, "all", "half" or "none" ("": all, and `lower_needs_bytes` is what the script needs
    if they keep nothing). workspaces: what cuDNN asks for, "rule" or "none" ("": the card's default,
    docs/phantom-gpu.md). steps: optimizer steps after which each run ends (None: as the script does); lengths: a file
    with the length of the inputs of each step of a long run, line by line, or replay_steps: the number of its steps, of
    lengths drawn from those that ran: what fits is then what fits in all its steps, by a replay (docs/long-runs.md).
    precision: of float32 products in predicted times, "tf32" or "fp32" (None: as the script sets it). The result prints
    as `coopsim fit` does, and has `fits`, `needs_bytes`, `memory_bytes` and `remedies`, each with the keys of `--json`.
    Raises CoopsimError if the script fails for another reason than memory, and for a file that is none of lengths.
    """
    if not isinstance(script, str | Path | list | tuple):
        raise CoopsimError(f"script: {script!r} is no command: give a file, a command or its words")
    if isinstance(script, Path):
        words = [str(script)]
    else:
        try:
            words = shlex.split(script) if isinstance(script, str) else [str(word) for word in script]
        except ValueError as e:
            raise CoopsimError(f"{script!r} is not a command: {e}") from None
    if not words:
        raise CoopsimError('name the script to run, as in: coopsim.fit("train.py", gpu="rtx-3060")')
    of_type("jobs", jobs, int, "how many runs at a time")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0):
        raise CoopsimError(f"seconds {seconds!r}: a number above 0, or None")
    if jobs < 1:
        raise CoopsimError(f"jobs {jobs}: at least one run of the script at a time")
    it = Script.asked(tuple(words), options, card=gpu, memory_bytes=of_card(gpu, memory, "memory"))
    return Search(it, jobs=jobs, seconds=seconds, say=note).run()


def apply(script: Script, remedy: Remedy, *, output: int | None = None) -> Report:
    """Run a script with a remedy on the phantom GPU, with all of the card's memory, and return the report.

    What runs is a copy of the script with the remedy's lines, as it was verified, or the stand-in for them. `output` is
    the file descriptor of the script's stdout (None: our own). Raises what coopsim.run.run raises.
    """
    script = replace(script, command=remedy.command, output=output)
    if not remedy.texts:
        return run(changed(script, remedy.changes))
    with copied(remedy.command, dict(remedy.texts)) as copy:
        return run(changed(replace(script, command=copy), remedy.changes.outside_files))
