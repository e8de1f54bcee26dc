"""The ranks of a job, and which of them to run."""

import re
from dataclasses import dataclass, replace

from coopsim.observe.errors import CaptureError

#: A world of more ranks has not been seen to start: PyTorch's own bookkeeping grows with it.
LARGEST = 4096
PER_NODE = 8  #: cards of a machine, where nobody says how many


@dataclass(frozen=True)
class World:
    """`size` ranks on machines of `cards`. `run` are those that run here: rank 0, if nothing else is said.

    `virtual`: each process sees its own card only, as torchrun --virtual-local-rank has it.
    """

    size: int
    cards: int
    run: tuple[int, ...] = (0,)
    virtual: bool = False

    @property
    def per_node(self) -> int:
        """The ranks on each machine: all, if one has cards enough."""
        return min(self.cards, self.size)

    @property
    def together(self) -> bool:
        """Do all ranks run, so that they can speak to each other?"""
        return len(self.run) == self.size

    @property
    def devices(self) -> int:
        """The cards that a process sees."""
        return 1 if self.virtual else self.per_node

    def variables(self, rank: int, port: int) -> dict[str, str]:
        """What torchrun tells the process of a rank."""
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
        """The same with another number of ranks, on as many full machines as that takes."""
        job = replace(self, size=size)
        if size % job.per_node:
            raise CaptureError(f"{size} ranks do not fill machines of {self.cards}; name a multiple of {self.cards}")
        return job

    def running(self, ranks: str | None) -> "World":
        """The same with the ranks of `--ranks` to run: "0,7" or "all"; None is rank 0."""
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
    """A world of machines with 8 cards."""
    return World(size, PER_NODE).resized(size)
