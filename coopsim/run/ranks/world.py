"""Describe the ranks of a job, and which of them to run. A rank is one of its processes, each on a card of its own."""

import re
from dataclasses import dataclass, replace

from coopsim.base.errors import CaptureError

#: The largest world that was seen to start: PyTorch's own bookkeeping grows with it.
LARGEST = 4096
PER_NODE = 8  #: cards of a machine, by default


@dataclass(frozen=True)
class World:
    """A job of `size` ranks on machines of `cards` cards. `run` are the ranks that are run, rank 0 by default.

    `virtual`: each process sees its own card only, as with torchrun --virtual-local-rank.
    """

    size: int
    cards: int
    run: tuple[int, ...] = (0,)
    virtual: bool = False

    @property
    def per_node(self) -> int:
        """The ranks per machine: one per card, or all of them if one machine has enough cards."""
        return min(self.cards, self.size)

    @property
    def together(self) -> bool:
        """Whether all ranks are run, so that they can communicate."""
        return len(self.run) == self.size

    @property
    def devices(self) -> int:
        """The number of cards that a process sees."""
        return 1 if self.virtual else self.per_node

    def variables(self, rank: int, port: int) -> dict[str, str]:
        """Return the variables that torchrun sets for the process of a rank; `port`: of the store, MASTER_PORT."""
        nodes = self.size // self.per_node
        values = {
            "RANK": rank,
            "WORLD_SIZE": self.size,
            "LOCAL_RANK": 0 if self.virtual else rank % self.per_node,
            "LOCAL_WORLD_SIZE": self.per_node,
            "GROUP_RANK": rank // self.per_node,
            "GROUP_WORLD_SIZE": nodes,
            "ROLE_RANK": rank,
            "ROLE_WORLD_SIZE": self.size,
            "ROLE_NAME": "default",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "TORCHELASTIC_RESTART_COUNT": 0,
            "TORCHELASTIC_MAX_RESTARTS": 0,
            "TORCHELASTIC_RUN_ID": "phantom",
        }
        return {key: str(value) for key, value in values.items()}

    def resized(self, size: int) -> "World":
        """Return this job with another number of ranks. Raises CaptureError unless they fill a machine, or several."""
        job = replace(self, size=size)
        if size % job.per_node:
            raise CaptureError(f"{size} ranks do not fill machines of {self.cards}; name a multiple of {self.cards}")
        return job

    def running(self, ranks: str | None) -> "World":
        """Return this job with the ranks that are to run, as `--ranks` takes them: "0,7" or "all"; None is rank 0.

        Raises CaptureError for a world that is too large, and for ranks that are malformed or not in it.
        """
        if not 1 <= self.size <= LARGEST:
            raise CaptureError(f"a world of {self.size} ranks; the phantom GPU stands for 1 to {LARGEST}")
        if ranks == "all":
            return replace(self, run=tuple(range(self.size)))
        if not re.fullmatch(r"\d+(,\d+)*", ranks or "0"):
            raise CaptureError(f"--ranks {ranks}: say which, as in 0,7, or all")
        run = tuple(sorted({int(n) for n in (ranks or "0").split(",")}))
        if run[-1] >= self.size:
            raise CaptureError(f"--ranks {ranks}: there are ranks 0 to {self.size - 1}")
        return replace(self, run=run)


def of_size(size: int) -> World:
    """Return a job of `size` ranks on machines with 8 cards. Raises CaptureError unless they fill one, or several."""
    return World(size, PER_NODE).resized(size)
