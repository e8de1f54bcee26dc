"""A phantom GPU in this process, as a notebook needs it.

PyTorch's libraries name NVIDIA's as those that they need; what is loaded under these names already is not searched for.
So the stand-in libraries are loaded before PyTorch. A library that is loaded before any other (csrc/exit.c,
csrc/watchdog.c) cannot be had, so two behaviours are a GPU's: `time.sleep` takes no time of the phantom's clock, and a
Python before 3.14 may abort if it ends in the middle of a backward pass.
"""

import ctypes
import os
import sys
from pathlib import Path

from coopsim import phantom
from coopsim.base.errors import PhantomError
from coopsim.base.progress import note
from coopsim.base.run_options import WorkspaceChoice
from coopsim.cards import profiles
from coopsim.phantom import control

#: Those that are for processes which the loader starts, and not for this one.
_AT_START = ("LD_PRELOAD", "TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT")
_ANEW = "start the process (a notebook's kernel) anew, and first call coopsim.phantom_gpu, or %load_ext coopsim"


def phantom_gpu(card: str = "a100-80gb", *, limit: bool = False, workspaces: WorkspaceChoice = "") -> None:
    """Let PyTorch see a phantom GPU in this process: whole programs run, memory is as on the card, nothing is computed.

    To be called before `import torch`; in a notebook `%load_ext coopsim` does it. `coopsim.capture` then records
    functions of this process. card: a name of `coopsim list hardware`, or a card file. limit: whether memory runs out
    where the card's does; programs are told the card's memory in any case. workspaces: what cuDNN asks for, "rule" or
    "none" ("": the card's default, docs/phantom-gpu.md). CoopsimError if PyTorch is imported already, if this process
    has another phantom GPU, or if the phantom GPU cannot be had (docs/install.md).
    """
    profile = profiles.get(card)
    if (present := here()) is not None:
        if present == profile:
            return
        raise PhantomError(f"this process has a phantom {present.title} already; start it anew for another card")
    if any(name.partition(".")[0] == "torch" for name in sys.modules):  # also what a failed import leaves behind
        raise PhantomError(f"PyTorch was imported in this process before; {_ANEW}")
    variables = phantom.environment(card, limit=limit, workspaces=workspaces)
    os.environ |= {name: value for name, value in variables.items() if name not in _AT_START}
    _load(Path(variables["LD_LIBRARY_PATH"].partition(":")[0]))
    control.is_phantom.cache_clear()
    if not control.is_phantom():
        raise PhantomError(f"CUDA's runtime was loaded in this process before; {_ANEW}")
    note(f"PyTorch sees a phantom {profile.title} in this process, on which nothing is computed")


def here() -> profiles.Profile | None:
    """Return the card that is imitated in this process; None where it does not run on the phantom GPU."""
    card = os.environ.get(phantom.CARD)  # asked first: to look for the runtime would load a real one
    return profiles.get(card) if card and control.is_phantom() else None


def _load(folder: Path) -> None:
    """Load all libraries in the folder; some need others, so again until none is left."""
    left = sorted(file for file in folder.iterdir() if ".so" in file.name)
    while left:
        failed = {}
        for file in left:
            try:
                ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                failed[file] = error
        if len(failed) == len(left):
            raise PhantomError(f"a library of the phantom GPU cannot be loaded: {next(iter(failed.values()))}")
        left = list(failed)
