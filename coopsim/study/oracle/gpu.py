"""Ask the allocator of the PyTorch that is installed, on this machine's GPU."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from coopsim.study.oracle.build import OracleError
from coopsim.study.oracle.recording import OracleRecording


@dataclass(frozen=True)
class Gpu:
    """As run.Oracle, for `a`, `f` and `p`; addresses are the device's own. `environment`: of the process that asks."""

    version: str
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def record(self, conf: str, total: int, requests: list[str]) -> OracleRecording:
        """What it answers, and where the driver put its segments.

        OracleError if PyTorch has no GPU, or refuses the settings.
        """
        _, device, *lines = _run(self.environment, conf, total, requests)
        segments = [line.split()[1:] for line in lines if line.startswith("segment ")]
        places = np.array(segments, np.int64).reshape(-1, 2)
        answers = lines[: len(lines) - len(segments)]
        return OracleRecording(self.version, conf, total, int(device.split()[1]), requests, answers, places)


def gpu(environment: Mapping[str, str] | None = None) -> Gpu:
    """The GPU of this machine. OracleError if PyTorch finds none."""
    environment = os.environ if environment is None else environment
    said, *_ = _run(environment, "", 1 << 40, [])
    return Gpu(said.removeprefix("torch ").partition("+")[0], environment)


def _run(environment: Mapping[str, str], conf: str, total: int, requests: list[str]) -> list[str]:
    gone = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")
    env = {k: v for k, v in environment.items() if k not in gone}
    env |= {"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {}
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "coopsim.study.oracle.on_device", str(total)],
        input="".join(f"{line}\n" for line in requests),
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit status {run.returncode}"]
        raise OracleError(f"--against cuda: {lines[-1]}; torch==VERSION needs no GPU")
    return run.stdout.splitlines()
