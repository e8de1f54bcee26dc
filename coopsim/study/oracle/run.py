"""Ask the real allocator: a process of its own for each case."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Oracle:
    """The real allocator of one torch version."""

    version: str
    folder: Path

    def ask(self, conf: str, total: int, requests: list[str]) -> list[str]:
        """What it answers, a line an item; one line `refused ...` if it takes the settings for wrong."""
        run = self._run(conf, total, requests)
        lines = run.stdout.splitlines()
        if run.returncode:
            refused = [line for line in run.stderr.splitlines() if line.startswith("refused ") or "what():" in line]
            lines.append(refused[-1] if refused else f"died {run.returncode} {run.stderr[-300:]}")
        return lines

    def seconds(self, conf: str, total: int, requests: list[str]) -> float:
        """How long it takes for all of them, without the output."""
        said = self._run(conf, total, requests, "--quiet").stderr
        return float(said.split("seconds ")[1].split()[0])

    def _run(self, conf: str, total: int, requests: list[str], *options: str) -> "subprocess.CompletedProcess[str]":
        gone = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")
        env = {k: v for k, v in os.environ.items() if k not in gone}
        env |= {"ORACLE_TOTAL": str(total), "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC": "0"}
        env |= {"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {}
        return subprocess.run(  # noqa: S603
            [self.folder / "driver", *options],
            input="\n".join(requests) + "\n",
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
