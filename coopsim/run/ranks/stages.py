"""Pipelines: a rank reports that it cannot run alone; of a long one, the stages that differ are chosen to run.

Stages are numbered along the pipeline, from 0. Their figures are peaks and the like (start.RanProgram.figures). Those
between two stages with the same figures are assumed to be like them; where two differ, the one halfway between is run
next.
"""

import json
import os
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from coopsim.run.task import FOLDER

_FILE = "needs-ranks"  #: in a process's folder of reports

#: A pipeline of at most so many stages is run as a whole.
FEW = 8
#: Of a longer one at most so many are run: between its ends, each stage may hold another number of micro-batches.
_MOST = 16


def first(stages: int) -> list[int]:
    """Return the stages to run first, of a pipeline of `stages`: all if there are at most 8.

    Else both ends, their neighbours and the one in the middle.
    """
    return list(range(stages)) if stages <= FEW else sorted({0, 1, stages // 2, stages - 2, stages - 1})


def more(figures: Mapping[int, Hashable]) -> list[int]:
    """Return the stages to run next, given the figures of those that were run; [] if no more are to be run.

    They are the middles of the widest gaps between stages whose figures differ; at most 16 stages are run in all.
    """
    ran = sorted(figures)
    gaps = [(b - a, a) for a, b in pairwise(ran) if b - a > 1 and figures[a] != figures[b]]
    room = max(_MOST - len(ran), 0)
    return sorted(a + width // 2 for width, a in sorted(gaps, reverse=True)[:room])


def left_out(figures: Mapping[int, Hashable], stage: int) -> tuple[range, bool]:
    """Return the stages between `stage`, which was run, and the next that was; and whether they count as like it.

    `figures` are those of the stages that were run. No stages if `stage` is the last of them.
    """
    after = min((n for n in figures if n > stage), default=stage + 1)
    return range(stage + 1, after), after in figures and figures[stage] == figures[after]


def all_of(pipeline: Sequence[int]) -> NoReturn:
    """Report that this process needs the ranks of `pipeline`, each with one or several stages, and exit with code 0."""
    Path(os.environ[FOLDER], _FILE).write_text(json.dumps(list(pipeline)), encoding="utf-8")
    os._exit(0)


def said(folder: str) -> tuple[int, ...]:
    """Return the ranks that the process with this report folder has reported (`all_of`); () if it can run alone."""
    file = Path(folder, _FILE)
    return tuple(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else ()
