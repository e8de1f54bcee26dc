"""Run torchtitan's own trainer as rank 0 of its published rows, and compare reserved memory with what they measured.

    git clone https://github.com/pytorch/torchtitan && git -C torchtitan checkout 9dec370
    python experiments/ranks/torchtitan.py torchtitan -o experiments/expected/torchtitan.csv

`train.py` and `train_configs/llama3_8b.toml` are theirs, unchanged. The vocabulary (of Llama's size) and the texts are
made up. Needs torch 2.7.0 with triton 3.3.0, and what torchtitan imports; README.md says how to get them.
"""

import argparse
import base64
import itertools
import json
import random
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import table

from coopsim.base.types import CoopsimError
from coopsim.run import Script, run

CARD = "h100-80gb"
#: Their cards are H100s with "96GB HBM2e", of which programs find 95 GiB (49.66 GiB are 52.28 %, torchtitan #1287).
MEMORY = 95 << 30
STEPS = 3
MERGED, TEXTS = 128_000, 2000  #: Llama 3's tokens, its 256 special ones left out; texts for some steps


@dataclass(frozen=True)
class Row:
    """One of theirs: benchmarks/llama3_h100_202412_torchtitan.md, tables 1 and 3, the rows that are not compiled."""

    ranks: int
    measured_gib: float


ROWS = (Row(8, 82.4), Row(128, 67.0))
#: The first is the allocator's default, the second what their run_llama_train.sh sets.
SETTINGS = ("", "expandable_segments:True")


def make_inputs(folder: Path) -> None:
    """A vocabulary, as a file of tiktoken's, and texts, as JSON lines."""
    of_length = (itertools.product(range(256), repeat=n) for n in (1, 2, 3))
    tokens = itertools.islice(itertools.chain.from_iterable(of_length), MERGED)
    lines = (f"{base64.b64encode(bytes(token)).decode()} {rank}" for rank, token in enumerate(tokens))
    (folder / "tokenizer.model").write_text("\n".join(lines), encoding="utf-8")
    (folder / "texts").mkdir()
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(5000)]
    texts = (" ".join(chance.choices(words, k=chance.randint(50, 900))) for _ in range(TEXTS))
    lines = (json.dumps({"text": text}) for text in texts)
    (folder / "texts" / "data.json").write_text("\n".join(lines), encoding="utf-8")


def script(checkout: Path, inputs: Path) -> Script:
    """Their trainer, on our inputs."""
    options = {
        "job.config_file": checkout / "train_configs" / "llama3_8b.toml",
        "job.dump_folder": inputs / "outputs",
        "model.tokenizer_path": inputs / "tokenizer.model",
        "training.batch_size": 2,
        "training.dataset": "c4_test",
        "training.dataset_path": inputs / "texts",
        "training.seed": 0,
        "training.steps": STEPS,
    }
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    command = ("python", str(checkout / "train.py"), *words)
    return Script(command, card=CARD, memory_bytes=MEMORY, quiet=True)


def compare(of: Script, row: Row, setting: str, home: Path) -> dict[str, object]:
    """One run beside what they measured."""
    variables = (("PYTORCH_CUDA_ALLOC_CONF", setting), ("HF_HOME", str(home)), ("HF_HUB_OFFLINE", "1"))
    found = run(replace(of, world_size=row.ranks, variables=variables))
    if found.outcome != "ok":
        raise CoopsimError(f"{row.ranks} ranks ran out of memory")
    gib = found.peak_reserved_bytes / 2**30
    return {
        "ranks": row.ranks,
        "setting": setting,
        "measured_gib": row.measured_gib,
        "reserved_gib": round(gib, 2),
        "off_percent": round(100 * (gib / row.measured_gib - 1), 2),
        "allocated_gib": round(found.peak_allocated_bytes / 2**30, 2),
        "torch": found.versions["torch"],
    }


def main() -> int:
    """All rows, with each setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="of torchtitan, at 9dec370")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    checkout = args.checkout.absolute()
    rows: list[dict[str, object]] = []
    try:
        if not (checkout / "train_configs" / "llama3_8b.toml").exists():
            raise CoopsimError(f"{checkout}: no checkout of torchtitan at 9dec370")
        with tempfile.TemporaryDirectory() as folder:
            inputs = Path(folder)
            make_inputs(inputs)
            for row, setting in itertools.product(ROWS, SETTINGS):
                rows.append(compare(script(checkout, inputs), row, setting, inputs))
                table.write(args.output, rows)
                print(*rows[-1].values(), file=sys.stderr, flush=True)
    except CoopsimError as error:
        sys.stderr.write(f"torchtitan.py: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
