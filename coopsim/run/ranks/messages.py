"""Exchange objects between the stages of a pipeline by files, also with stages that are not run.

What a stage that is not run would send is what the nearest stage that is run sends, on the side away from the receiver:
stages between equal ones are assumed to be equal.
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
    """Replacements of PyTorch's send_object_list and recv_object_list for one stage.

    `pipeline`: the ranks of the pipeline, in order. `present`: those of them that run, or have run, with this `folder`.
    """

    def __init__(self, pipeline: Sequence[int], present: Sequence[int], folder: str) -> None:
        self._place = {rank: place for place, rank in enumerate(pipeline)}
        self._present = sorted(self._place[rank] for rank in present)
        self._folder = Path(folder)
        self._sent: Counter[int] = Counter()
        self._got: Counter[int] = Counter()
        self.signatures = [inspect.signature(f) for f in (c10d.send_object_list, c10d.recv_object_list)]

    def send(self, *args: Any, **named: Any) -> None:
        """Write the objects to a file for the receiver, and do not wait for it; replaces send_object_list.

        Objects to a rank outside the pipeline are dropped.
        """
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
        """Wait for the sender's file, read the objects, and return the sender's rank; replaces recv_object_list.

        Objects from a rank outside the pipeline are left as they are.
        """
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
        """Return the distance from one rank to another along the pipeline as a ring; None if either is outside it."""
        if source not in self._place or target not in self._place:
            return None
        return (self._place[target] - self._place[source]) % len(self._place)

    def _stand_in(self, place: int, step: int) -> int:
        """Return the place that stands for `place`: itself, or the nearest present one away from the receiver."""
        if step <= len(self._place) // 2:
            return max((p for p in self._present if p <= place), default=self._present[-1])
        return min((p for p in self._present if p >= place), default=self._present[0])


def _other(given: dict[str, Any], name: str) -> int:
    """Return the global rank that a call sends to or receives from. Raises RuntimeError if it names none."""
    if given.get(f"group_{name}") is not None:
        group: Any = given.get("group") or dist.group.WORLD
        return dist.get_global_rank(group, given[f"group_{name}"])
    if given.get(name) is None:
        raise RuntimeError(
            "a stage of a pipeline that runs without some others cannot receive from anybody: --ranks all"
        )
    return int(given[name])
