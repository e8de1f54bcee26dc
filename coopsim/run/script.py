"""Describe a training command of the user's, and the card to run it on."""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coopsim import phantom
from coopsim.base.errors import CaptureError
from coopsim.base.run_options import RunOptions
from coopsim.run.ranks import launcher

PYTHON = re.compile(r"python(3(\.\d+)?)?")  #: names of its interpreter


@dataclass(frozen=True)
class Script(RunOptions):
    """A command that trains on a GPU, and the card to run it on, "" for the machine's own devices.

    `memory_bytes` is the card's memory (None: what it has). `traceback`: print the traceback of an error. `output` is
    the file descriptor of the script's stdout (None: our own); `quiet` discards its output. `variables` are set in its
    environment. `plugin` is the module of a plugin, code that runs in the script's processes and is given `told`
    (launch/plugin.py); "" for none. `watched`: whether its ops are seen, `explains`: whether what memory holds is
    reported when it runs out (task.py). With `replay_steps` or `lengths` it is judged by a long run (launch/longer.py).
    """

    command: tuple[str, ...]
    card: str = "a100-80gb"
    memory_bytes: int | None = None
    traceback: bool = False
    output: int | None = None
    quiet: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    plugin: str = ""
    told: str = ""
    watched: bool = True
    explains: bool = True

    @classmethod
    def asked(cls, command: tuple[str, ...], options: Mapping[str, Any], **more: Any) -> "Script":
        """Return a script with options from the command line or Python. Raises CoopsimError for bad lengths."""
        if options.get("lengths"):
            from coopsim.run.longrun.lengths import read

            read(Path(options["lengths"]))
            options = {**options, "lengths": str(Path(options["lengths"]).absolute())}
        return cls(command, **options, **more)

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
        return " ".join(words[1:] if PYTHON.fullmatch(Path(words[0]).name) and len(words) > 1 else words)

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
        return (PYTHON.fullmatch(name) is not None or name.endswith(".py")) and not launcher.is_one(self.command)

    def words(self) -> list[str]:
        """Return the command to start. A bare `python`, or a Python file, is run by the Python that runs coopsim.

        Raises CaptureError if there is no such file or command.
        """
        first = self.command[0]
        if first.endswith(".py"):
            if not Path(first).is_file():
                raise CaptureError(f"{first}: no such file")
            return [sys.executable, *self.command]
        if PYTHON.fullmatch(first):
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
