"""Describe a training command of the user's, and the card to run it on."""

import os
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from coopsim import phantom
from coopsim.base.types import Precision
from coopsim.record.observe.errors import CaptureError
from coopsim.run.ranks import launcher

_PYTHON = re.compile(r"python(3(\.\d+)?)?")


@dataclass(frozen=True)
class Script:
    """A command that trains on a GPU, and the card to run it on, "" for the machine's own devices.

    `memory_bytes` is the card's memory (None: what it has). `precision` is that of float32 products, "tf32" or "fp32"
    (None: as the script has set it). `traceback`: print the traceback of an error. `output` is the file descriptor of
    the script's stdout (None: our own); `quiet` discards its output. `world_size` is the number of ranks (None: as the
    launcher in the command says, or no ranks), `ranks` which of them to run: "0,7" or "all" (None: rank 0).
    `nccl_bytes` is what a communicator of NCCL takes of the card (None: as was published, ranks/job.py).
    `variables` are set in its environment. `plugin` is the module of a plugin, code that runs in the script's processes
    and is given `told` (launch/plugin.py); "" for none. `workspaces` is what cuDNN asks for on the phantom GPU
    (phantom/workspaces.py). `steps` is the number of optimizer steps after which the script is ended (None: it ends by
    itself). `masks` is what masks keep (observe/masks.py). `replay_steps`, `lengths`: judge it by a long run of so
    many steps, of lengths as in that file (launch/longer.py). `watched`: whether its ops are seen, `explains`: whether
    what memory holds is reported when it runs out (task.py).
    """

    command: tuple[str, ...]
    card: str = "a100-80gb"
    memory_bytes: int | None = None
    precision: Precision | None = None
    traceback: bool = False
    output: int | None = None
    quiet: bool = False
    world_size: int | None = None
    ranks: str | None = None
    nccl_bytes: int | None = None
    variables: tuple[tuple[str, str], ...] = ()
    plugin: str = ""
    told: str = ""
    masks: str = ""
    workspaces: phantom.Choice = ""
    steps: int | None = None
    replay_steps: int | None = None
    lengths: str = ""
    watched: bool = True
    explains: bool = True

    @property
    def profile(self) -> phantom.Profile:
        """The card's profile: its memory, peak rates and the like. Raises CoopsimError for an unknown card."""
        return phantom.profiles.get(self.card)

    @property
    def total_bytes(self) -> int:
        """The bytes of memory that the script finds on the card, the CUDA context's included."""
        return self.memory_bytes or self.profile.memory_bytes

    @property
    def title(self) -> str:
        """The command as it is shown: without `python` and the folder of the file."""
        words = [Path(w).name if w.endswith(".py") else w for w in self.command]
        return " ".join(words[1:] if _PYTHON.fullmatch(Path(words[0]).name) and len(words) > 1 else words)

    @property
    def is_long(self) -> bool:
        """Whether it is judged by a long run."""
        return self.replay_steps is not None or bool(self.lengths)

    def with_memory(self, nbytes: int) -> "Script":
        """Return this script on a card with `nbytes` of memory, with its output discarded."""
        return replace(self, memory_bytes=nbytes, quiet=True)

    @property
    def is_python(self) -> bool:
        """Whether it is a Python program that is no launcher, and so can be started as a rank."""
        name = Path(self.command[0]).name
        return (_PYTHON.fullmatch(name) is not None or name.endswith(".py")) and not launcher.is_one(self.command)

    def words(self) -> list[str]:
        """Return the command to start. A bare `python`, or a Python file, is run by the Python that runs coopsim.

        Raises CaptureError if there is no such file or command.
        """
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
    """Return the PATH by which commands are found: the folder of coopsim's Python, then the environment's PATH.

    `accelerate` and `torchrun` are installed in that folder.
    """
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
