"""Ask the allocator of the PyTorch that is installed, on this machine's GPU.

What a card answered is kept in a file, so that the card need not be there.
"""

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.base.files import replacing
from coopsim.base.types import CoopsimError
from coopsim.study.oracle.build import OracleError, with_settings

_VERSION = 1


@dataclass(frozen=True)
class OracleRecording:
    """requests: lines as a case has them. answers: a line for each allocation and each `p`.

    total_bytes: what PyTorch's allocator was allowed of the device_bytes (torch.cuda.set_per_process_memory_fraction).
    segments: int64 (n, 2), address and bytes of what the allocator asked of cudaMalloc, in order.
    """

    torch: str
    conf: str
    total_bytes: int
    device_bytes: int
    requests: list[str]
    answers: list[str]
    segments: NDArray[np.int64]

    def save(self, path: str | Path) -> None:
        """Write it as JSON (docs/reference/files.md), compressed if the name ends in .gz. CoopsimError if it fails."""
        found = {
            "answers_version": _VERSION,
            "torch": self.torch,
            "conf": self.conf,
            "total_bytes": self.total_bytes,
            "device_bytes": self.device_bytes,
            "requests_hash": _hash(self.requests),
            "segments": self.segments.tolist(),
            "addresses": [_address(line) for line in self.answers if not line.startswith("stats ")],
            "statistics": [line for line in self.answers if line.startswith("stats ")],
        }
        data = json.dumps(found, separators=(",", ":")).encode() + b"\n"
        with replacing(path) as part:
            part.write_bytes(gzip.compress(data, mtime=0) if str(path).endswith(".gz") else data)


@dataclass(frozen=True)
class RecordedCard:
    """Stands for the card that a file is of: it answers the requests that it was recorded for."""

    path: str
    version: str
    found: dict[str, Any]

    def record(self, conf: str, total: int, requests: list[str]) -> OracleRecording:
        """What the card answered. CoopsimError if it was asked something else."""
        f = self.found
        if (conf, total, _hash(requests)) != (f["conf"], f["total_bytes"], f["requests_hash"]):
            raise CoopsimError(f"{self.path}: recorded for other requests, other settings or another card")
        addresses, statistics, answers = iter(f["addresses"]), iter(f["statistics"]), []
        for request in requests:
            kind, *words = request.split()
            if kind == "a":
                address = next(addresses)
                answers.append(f"a {words[0]} {address}" if address >= 0 else f"oom {words[0]} {words[1]}")
            elif kind == "p":
                answers.append(next(statistics))
        segments = np.array(f["segments"], np.int64).reshape(-1, 2)
        return OracleRecording(self.version, conf, total, f["device_bytes"], requests, answers, segments)


def load(path: str | Path) -> RecordedCard:
    """Read what `save` wrote. CoopsimError if there is no such file, or if it is another one."""
    try:
        data = Path(path).read_bytes()
        found = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except FileNotFoundError:
        raise CoopsimError(f"{path}: no such file") from None
    except (OSError, EOFError, ValueError, RecursionError) as e:
        raise CoopsimError(f"{path}: cannot be read: {e}") from None
    if not isinstance(found, dict) or found.get("answers_version") != _VERSION:
        raise CoopsimError(f"{path}: not a file of a card's answers")
    return RecordedCard(str(path), found["torch"], found)


def _address(answer: str) -> int:
    return int(answer.split()[2]) if answer.startswith("a ") else -1


def _hash(requests: list[str]) -> str:
    return hashlib.blake2b("\n".join(requests).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Gpu:
    """As Oracle, for `a`, `f` and `p`; addresses are the device's own. `environment`: of the process that asks."""

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
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "coopsim.study.oracle.on_device", str(total)],
        input="".join(f"{line}\n" for line in requests),
        env=with_settings(environment, conf),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit status {run.returncode}"]
        raise OracleError(f"--against cuda: {lines[-1]}; torch==VERSION needs no GPU")
    return run.stdout.splitlines()
