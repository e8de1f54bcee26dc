"""Run the scripts with which published logs of modded-nanogpt begin, and compare peaks with those at their ends.

    git clone https://github.com/KellerJordan/modded-nanogpt
    python experiments/ranks/gpt_logs.py -o experiments/expected/gpt_logs.csv \\
        modded-nanogpt/records/track_2_medium/2025-11-12_BlockMaskRedundantOp/000_*.txt

Each script runs as rank 0 of 8 on made-up tokens, with fewer iterations and otherwise unchanged, under the torch of the
Python that runs this; logs of other versions are left out. `--runs 5` runs each five times. Rows of these logs that are
in the table already are replaced, others stay.
"""

import argparse
import contextlib
import itertools
import os
import random
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import table

from coopsim.base.types import CoopsimError
from coopsim.cards import wheel
from coopsim.run import Script, run

CARD, RANKS, ITERATIONS = "h100-80gb", 8, 12
_END = re.compile(r"^={100}$", re.MULTILINE)
_TORCH = re.compile(r"^Running PyTorch (\S+) compiled", re.MULTILINE)
_PEAKS = re.compile(r"^peak memory allocated: (\d+) MiB reserved: (\d+) MiB", re.MULTILINE)
_ITERATIONS = re.compile(r"(num_iterations(?:\s*:\s*int)?\s*=\s*)\d+")
#: Shards of tokens: 256 numbers of 32 bits, the first three these and how many tokens follow, of 16 bits.
_MAGIC, _VERSION, _HEADER_NUMBERS = 20240520, 1, 256
_SHARDS = {"fineweb_train_000001.bin": 20_000_000, "fineweb_val_000000.bin": 12_000_000}
_VOCABULARY = 50257


@dataclass(frozen=True)
class Log:
    """What a log says."""

    name: str
    script: str
    torch: str
    allocated_mib: int
    reserved_mib: int


def read(file: Path) -> Log:
    """A log. CoopsimError if it is none, or of another form."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CoopsimError(f"{file}: cannot be read: {error}") from None
    script, *rest = _END.split(text.removeprefix("=" * 100 + "\n"), maxsplit=1)
    said = rest[0] if rest else ""
    torch, peaks = _TORCH.search(said), _PEAKS.search(said)
    script, found = _ITERATIONS.subn(rf"\g<1>{ITERATIONS}", script, count=1)
    if torch is None or peaks is None or not found:
        raise CoopsimError(f"{file}: no log with script, version of PyTorch and peaks")
    return Log(file.parent.name, script, torch[1], int(peaks[1]), int(peaks[2]))


def make_tokens(folder: Path) -> None:
    """Shards of the sizes and the form that the scripts read."""
    folder.mkdir(parents=True)
    chance = random.Random(0)
    some = b"".join(chance.randrange(_VOCABULARY).to_bytes(2, "little") for _ in range(1 << 16))
    for name, tokens in _SHARDS.items():
        numbers = [_MAGIC, _VERSION, tokens, *[0] * (_HEADER_NUMBERS - 3)]
        header = b"".join(number.to_bytes(4, "little") for number in numbers)
        (folder / name).write_bytes(header + (some * -(-tokens // len(some) * 2))[: 2 * tokens])


def compare(log: Log, number: int) -> dict[str, object]:
    """A run of the script in the current folder, the `number`th, beside what the log says."""
    Path("train_gpt.py").write_text(log.script, encoding="utf-8")
    found = run(Script(("python", "train_gpt.py"), card=CARD, world_size=RANKS, quiet=True))
    if found.outcome != "ok":
        raise CoopsimError(f"{log.name}: its script ran out of memory")
    ours = {"allocated": found.peak_allocated_bytes >> 20, "reserved": found.peak_reserved_bytes >> 20}
    measured = {"allocated": log.allocated_mib, "reserved": log.reserved_mib}
    row: dict[str, object] = {"log": log.name, "torch": log.torch, "iterations": ITERATIONS, "run": number}
    for key, mib in ours.items():
        off = round(100 * (mib / measured[key] - 1), 2) + 0.0  # not -0.0
        row |= {f"measured_{key}_mib": measured[key], f"{key}_mib": mib, f"{key}_off_percent": off}
    return row


def main() -> int:
    """All logs of the installed torch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="TABLE")
    parser.add_argument("--runs", type=int, default=1)
    args = parser.parse_args()
    output = args.output.absolute()
    try:
        here = wheel.find().version
        logs = [log for log in map(read, args.logs) if log.torch == here]
        if not logs:
            raise CoopsimError(f"no log is of torch {here}")
        names = {log.name for log in logs}
        if len(names) < len(logs):
            raise CoopsimError("two of these logs are of the same record; name one of them")
        rows: list[dict[str, Any]] = [row for row in table.read(output) if row["log"] not in names]
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            make_tokens(Path("data", "fineweb10B"))
            nvidia_smi = Path("nvidia-smi")  # the scripts show what it says
            nvidia_smi.write_text("#!/bin/sh\n", encoding="utf-8")
            nvidia_smi.chmod(0o755)
            os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
            for log, number in itertools.product(logs, range(1, args.runs + 1)):
                rows.append(compare(log, number))
                table.write(output, sorted(rows, key=lambda row: (row["log"], int(row["run"]))))
                print(*rows[-1].values(), file=sys.stderr, flush=True)
    except CoopsimError as error:
        sys.stderr.write(f"gpt_logs.py: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
