"""What Python users call."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from coopsim import budget
from coopsim.fit.search import Search
from coopsim.fit.verdict import Fit
from coopsim.phantom import profiles
from coopsim.progress import note
from coopsim.script import Script


def fit(
    script: str | Path | Sequence[str],
    *,
    gpu: str,
    memory: str | None = None,
    jobs: int = 1,
    executor: str = "processes",
) -> Fit:
    """What to change of a training script so that it fits a card: remedies that were tried on the phantom GPU.

    script: a file, or a command as in a shell, `"train.py --batch {}"`, or its words. gpu: a card (`coopsim list
    hardware`); memory: as if it had so much, "11GiB". jobs: runs of the script at a time; executor:
    where, "dask://HOST:PORT" for a running cluster. The result prints as
    `coopsim fit` does, and has `fits`, `needs_bytes`, `memory_bytes` and `remedies`, each with the keys of `--json`.
    CoopsimError if the script fails for another reason than memory.
    """
    if isinstance(script, Path):
        words = [str(script)]
    else:
        words = shlex.split(script) if isinstance(script, str) else [str(word) for word in script]
    nbytes = None if memory is None else budget.parse(memory, profiles.get(gpu).memory_bytes, "memory")
    return Search(Script(tuple(words), card=gpu, memory_bytes=nbytes), jobs=jobs, executor=executor, say=note).run()
