"""A training command of the user's, and the card to run it on."""

import os
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from coopsim import phantom
from coopsim.observe.errors import CaptureError
from coopsim.script.ranks import launcher

_PYTHON = re.compile(r"python(3(\.\d+)?)?")


@dataclass(frozen=True)
class Script:
    """A command that trains on a GPU, and the card to run it on. `memory_bytes` None: what the card has.

    `output` is the descriptor that the script's stdout goes to (None: our own), `quiet` drops all that it says.
    `world_size` is the number of ranks (None: as the launcher in the command has it, or no ranks at all), `ranks` which
    of them to run: "0,7" or "all" (None: rank 0). `nccl_bytes` is what each of NCCL's communicators takes of the card
    (None: as was published, ranks/buffers.py). `card` "" means the machine's own devices.
    `variables` are set in its environment. `guest` and what it is `told` are the task's.
    `steps` is the number of optimizer steps after which the script is ended (None: it ends by itself).
    """

    command: tuple[str, ...]
    card: str = "a100-80gb"
    memory_bytes: int | None = None
    precision: str = "tf32"
    traceback: bool = False
    output: int | None = None
    quiet: bool = False
    world_size: int | None = None
    ranks: str | None = None
    nccl_bytes: int | None = None
    variables: tuple[tuple[str, str], ...] = ()
    guest: str = ""
    told: str = ""
    steps: int | None = None

    @property
    def profile(self) -> phantom.Profile:
        """The card."""
        return phantom.profiles.get(self.card)

    @property
    def total_bytes(self) -> int:
        """The memory that the script finds, the context's share included."""
        return self.memory_bytes or self.profile.memory_bytes

    @property
    def title(self) -> str:
        """The command as it is shown: without the folder of the file."""
        words = [Path(w).name if w.endswith(".py") else w for w in self.command]
        return " ".join(words[1:] if _PYTHON.fullmatch(Path(words[0]).name) and len(words) > 1 else words)

    def with_memory(self, nbytes: int) -> "Script":
        """The same on a card with other memory, unheard."""
        return replace(self, memory_bytes=nbytes, quiet=True)

    @property
    def is_python(self) -> bool:
        """Is it a Python program that can be started as a rank, and no launcher?"""
        name = Path(self.command[0]).name
        return (_PYTHON.fullmatch(name) is not None or name.endswith(".py")) and not launcher.is_one(self.command)

    def words(self) -> list[str]:
        """The command to start. A bare `python`, or a Python file, runs under the Python that runs us."""
        first = self.command[0]
        if first.endswith(".py"):
            if not Path(first).is_file():
                raise CaptureError(f"{first}: no such file")
            return [sys.executable, *self.command]
        if _PYTHON.fullmatch(first):
            if len(self.command) > 1 and self.command[1].endswith(".py") and not Path(self.command[1]).is_file():
                raise CaptureError(f"{self.command[1]}: no such file")
            return [sys.executable, *self.command[1:]]
        found = shutil.which(first, path=command_path())
        if found is None:
            raise CaptureError(f"{first}: no such command")
        return [found, *self.command[1:]]


def command_path() -> str:
    """Where commands are looked for: beside our own Python first, so that `accelerate` and its like are found."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
