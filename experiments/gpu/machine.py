"""On which machine, with what, and when a file was made: stands in every file of a folder of results."""

import datetime
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

from coopsim.base import files
from coopsim.calibrate.run import clocks, driver

_PACKAGES = ("torch", "transformers", "numpy", "numba", "pyarrow")


def facts() -> dict[str, Any]:
    """For a process with a GPU: its name, driver, versions, time (UTC) and clocks; and whether it is the phantom."""
    import torch

    from coopsim.phantom import control

    gpu = torch.cuda.get_device_properties(0)
    return {
        "gpu": gpu.name,
        "memory_bytes": gpu.total_memory,
        "multiprocessors": gpu.multi_processor_count,
        "phantom": control.is_phantom(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "driver": driver(),
        "date": now(),
        "nvidia_smi": clocks(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of Python and of the packages that matter."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write(path: Path, content: dict[str, Any], start: dict[str, Any]) -> None:
    """Write JSON, whole or not at all. `start`: the facts when the measurement began; its end's clocks are added."""
    machine = start | {"date_end": now(), "nvidia_smi_end": clocks()}
    with files.replacing(path) as part:
        part.write_text(json.dumps({"machine": machine} | content, separators=(",", ":"), sort_keys=True) + "\n")
