"""What NVIDIA's driver says of this machine's first GPU."""

import re
import shutil
import subprocess
from pathlib import Path

_ASKED = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "clocks.max.mem",
    "temperature.gpu",
    "power.draw",
    "power.limit",
)
_KERNEL_DRIVER = Path("/proc/driver/nvidia/version")


def _nvidia_smi(*asked: str) -> str:
    """What nvidia-smi prints of the first GPU, "" where there is none."""
    if not shutil.which("nvidia-smi"):
        return ""
    command = ["nvidia-smi", "-i", "0", *asked, "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603


def clocks() -> dict[str, str]:
    """Return what nvidia-smi says of the first GPU now, clocks in MHz; {} where there is no nvidia-smi."""
    values = [value.strip() for value in _nvidia_smi(f"--query-gpu={','.join(_ASKED)}").split(",")]
    return dict(zip(_ASKED, values, strict=True)) if len(values) == len(_ASKED) else {}


def driver() -> str:
    """Return the version of NVIDIA's driver, "" where there is none."""
    said = clocks().get("driver_version", "")
    if not said and _KERNEL_DRIVER.exists():
        found = re.search(r"\d+\.\d+(\.\d+)?", _KERNEL_DRIVER.read_text(encoding="utf-8"))
        said = found[0] if found else ""
    return said


def others() -> int:
    """Return how many processes compute on the first GPU; 0 where that is not known."""
    said = _nvidia_smi("--query-compute-apps=pid")
    return sum(line.strip().isdecimal() for line in said.splitlines())
