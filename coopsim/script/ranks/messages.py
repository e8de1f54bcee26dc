"""Objects that a stage of a pipeline sends to its neighbours, as files: also from neighbours that are not run.

A stage that is not run sends what the nearest one sends that is run, on its side: stages between like ones are alike.
"""

import inspect
import os
import pickle
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

_POLL_S = 0.01


class Messages:
    """`pipeline`: the ranks of a pipeline, in order; `present`: those of them that run, or have run, in this folder."""

    def __init__(self, pipeline: Sequence[int], present: Sequence[int], folder: str) -> None:
        self._place = {rank: place for place, rank in enumerate(pipeline)}
        self._present = sorted(self._place[rank] for rank in present)
        self._folder = Path(folder)
        self._sent: Counter[int] = Counter()
        self._got: Counter[int] = Counter()
        self.signatures = [inspect.signature(f) for f in (c10d.send_object_list, c10d.recv_object_list)]

    def send(self, *args: Any, **named: Any) -> None:
        """In place of PyTorch's send_object_list."""
        given = self.signatures[0].bind(*args, **named).arguments
        step = self._step(dist.get_rank(), _other(given, "dst"))
        if step is None:
            return
        name = f"{self._place[dist.get_rank()]}.{step}.{self._sent[step]}"
        self._sent[step] += 1
        part = self._folder / f".{name}"
        part.write_bytes(pickle.dumps(given["object_list"]))
        os.rename(part, self._folder / name)

    def recv(self, *args: Any, **named: Any) -> int:
        """In place of PyTorch's recv_object_list. From a rank out of the pipeline the objects stay as they are."""
        given = self.signatures[1].bind(*args, **named).arguments
        source = _other(given, "src")
        step = self._step(source, dist.get_rank())
        if step is not None:
            file = self._folder / f"{self._stand_in(self._place[source], step)}.{step}.{self._got[step]}"
            self._got[step] += 1
            pause = threading.Event()  # not time.sleep, which the phantom's clock counts
            while not file.exists():
                pause.wait(_POLL_S)
            given["object_list"][:] = pickle.loads(file.read_bytes())  # noqa: S301 (the script's own, as in PyTorch)
        return source

    def _step(self, source: int, target: int) -> int | None:
        """How many places along the pipeline, which is taken for a ring, from one rank to another."""
        if source not in self._place or target not in self._place:
            return None
        return (self._place[target] - self._place[source]) % len(self._place)

    def _stand_in(self, place: int, step: int) -> int:
        """Who sends for the one at a place: itself, or the nearest that is present, seen away from the receiver."""
        if step <= len(self._place) // 2:
            return max((p for p in self._present if p <= place), default=self._present[-1])
        return min((p for p in self._present if p >= place), default=self._present[0])


def _other(given: dict[str, Any], name: str) -> int:
    """The rank, counted in the world, that a call sends to or receives from."""
    if given.get(f"group_{name}") is not None:
        group: Any = given.get("group") or dist.group.WORLD
        return dist.get_global_rank(group, given[f"group_{name}"])
    if given.get(name) is None:
        raise RuntimeError(
            "a stage of a pipeline that runs without some others cannot receive from anybody: --ranks all"
        )
    return int(given[name])
