"""The phantom GPU: a stand-in for the CUDA runtime that lets a CUDA build of PyTorch run whole programs without a GPU.

Everything on the host is real (dispatch, autograd, the caching allocator); kernels are accepted and never run, so
device memory reads as zeros. It serves a child process, for which `environment` gives the variables, or
this one (here.py).
"""

import os
from pathlib import Path
from typing import get_args

from coopsim.base.errors import NoCudaTorchError, PhantomError
from coopsim.base.files import cache_folder
from coopsim.base.run_options import WorkspaceChoice
from coopsim.cards import profiles, wheel
from coopsim.cards.card_file import is_one
from coopsim.cards.profiles import Profile
from coopsim.phantom import build

#: Compute capabilities whose cards were measured and agree with the rules (docs/phantom-gpu.md).
_MEASURED = ("9.0",)
#: Bytes of a card on which memory does not run out.
ENDLESS = 4 << 40
#: The variable that names the card (or its file) to the processes that imitate it.
CARD = "COOPSIM_PHANTOM_CARD"

__all__ = [
    "CARD",
    "ENDLESS",
    "NoCudaTorchError",
    "PhantomError",
    "Profile",
    "WorkspaceChoice",
    "compiler_caches",
    "environment",
    "profiles",
]


def by_rule(choice: WorkspaceChoice, compute_capability: str) -> bool:
    """Return whether a card's cuDNN asks for workspaces (rules: csrc/cudnn_sizes.c). PhantomError: no such choice."""
    if choice not in get_args(WorkspaceChoice):
        raise PhantomError(f"unknown workspaces {choice!r}; they are rule or none")
    return choice == "rule" or (not choice and compute_capability in _MEASURED)


def environment(
    card: str | Profile,
    *,
    total_bytes: int | None = None,
    limit: bool = True,
    devices: int = 1,
    workspaces: WorkspaceChoice = "",
) -> dict[str, str]:
    """Return the variables under which a process sees the phantom GPU as a `card`, to be merged over os.environ.

    `total_bytes` is the card's memory, its own by default. Without `limit` programs are told so, but memory does not
    run out there. A process sees `devices` such cards, and is meant to use one of them, as a rank does. `workspaces`
    says what cuDNN asks for. Compiles the libraries at first use. Raises PhantomError if that is not
    possible here.
    """
    profile = profiles.get(card) if isinstance(card, str) else card
    folder = str(build.libraries())
    name = card if isinstance(card, str) else card.name
    found = profile.variables() | {
        CARD: str(Path(name).absolute()) if is_one(name) else name,
        "COOPSIM_PHANTOM_LIMIT": "" if limit else str(ENDLESS),
        "LD_LIBRARY_PATH": ":".join(filter(None, [folder, os.environ.get("LD_LIBRARY_PATH")])),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(devices))),
        "COOPSIM_PHANTOM_DEVICES": str(devices),
        "COOPSIM_PHANTOM_WORKSPACES": str(int(by_rule(workspaces, profile.compute_capability))),
        "TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT": "0",  # autograd must not wait for its threads, which csrc/exit.c blocks
    }
    if total_bytes is not None:
        found["COOPSIM_PHANTOM_TOTAL"] = str(total_bytes)
    first = [f"{folder}/{build.EXIT}"]
    if wheel.find().has_real_libraries:
        # torch's RPATH would find NVIDIA's libraries first; libraries that are loaded already are not searched for.
        first = sorted(entry.path for entry in os.scandir(folder) if ".so" in entry.name)
    found["LD_PRELOAD"] = ":".join(filter(None, [*first, os.environ.get("LD_PRELOAD")]))
    return found


def without_gpu() -> dict[str, str]:
    """Return the variables under which this Python's torch can be imported and finds no GPU, for os.environ.

    {} if it can be imported as it is, or is not installed. A CUDA build without NVIDIA's libraries cannot: it gets the
    stand-in libraries and no card. Raises PhantomError if these cannot be compiled here.
    """
    try:
        found = wheel.find()
    except PhantomError:
        return {}
    return {} if found.has_real_libraries or found.can_be_imported() else environment("a100-80gb", devices=0)


def compiler_caches() -> dict[str, str]:
    """Return variables that give Inductor and Triton cache folders of coopsim's.

    Kernels that were chosen here, by modelled times, must not be found by runs on a real card.
    """
    return {f"{name}_CACHE_DIR": str(cache_folder() / name.lower()) for name in ("TORCHINDUCTOR", "TRITON")}
