"""What takes the memory in each way to fine-tune: first figure and table of docs/fine-tuning.md.

    python experiments/peft/methods.py

Runs examples/finetune.py under `coopsim phantom run` once per method, and experiments/peft/images.py for diffusion; a
minute or two. Needs what run.py needs, and bitsandbytes.
"""

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import page
from rows import CARD

from coopsim.base.files import replacing
from coopsim.base.progress import note
from coopsim.base.types import CoopsimError
from experiments.figures.draw.methods import KINDS
from experiments.figures.experiment import EXPECTED, ROOT

HERE = Path(__file__).parent
FLUX = HERE / "data" / "configs" / "image-gen"
COLUMNS = ("method", "title", "command", "peak_allocated_bytes", "peak_reserved_bytes", *KINDS)


def methods(scratch: Path) -> list[tuple[str, str, list[str]]]:
    """Name, title and command of each."""
    tune = [(ROOT / "examples" / "finetune.py").relative_to(ROOT).as_posix()]
    images = [
        str(HERE / "images.py"),
        str(FLUX / "lora" / "flux2-klein-default"),
        str(scratch / "result.json"),
        "2026-08-14",
    ]
    return [
        ("full", "full", [*tune, "full"]),
        ("lora", "LoRA", [*tune, "lora"]),
        ("lora-checkpointed", "LoRA, checkpointing", [*tune, "lora", "--checkpointing"]),
        ("qlora", "QLoRA", [*tune, "qlora"]),
        ("qlora-checkpointed", "QLoRA, checkpointing", [*tune, "qlora", "--checkpointing"]),
        ("dpo", "DPO, LoRA", [*tune, "dpo"]),
        ("grpo", "GRPO, LoRA", [*tune, "grpo"]),
        ("diffusion", "diffusion (FLUX.2), LoRA", images),
    ]


def run(command: list[str]) -> dict[str, Any]:
    """The report of `phantom run`. CoopsimError if the script fails."""
    done = subprocess.run(  # noqa: S603 our own scripts
        [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", CARD, "--json", "--", "python", *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if done.returncode:
        raise CoopsimError((done.stderr.strip().splitlines() or ["no message"])[-1])
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def main() -> int:
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, title, command in methods(Path(scratch)):
            report = run(command)
            kinds = report["peak_by_kind"]
            shown = " ".join(command) if name != "diffusion" else "experiments/peft/images.py"
            row = {"method": name, "title": title, "command": shown}
            row |= {key: report[key] for key in ("peak_allocated_bytes", "peak_reserved_bytes")}
            rows.append(row | {kind: kinds.get(kind, 0) for kind in KINDS})
            rows[-1]["other"] = row["peak_allocated_bytes"] - sum(kinds.get(k, 0) for k in KINDS if k != "other")
            note(f"{title}: {row['peak_reserved_bytes'] / (1 << 30):.2f} GiB reserved")
    with replacing(EXPECTED / "fine-tuning.csv") as part, Path(part).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    page.write("fine-tuning")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CoopsimError as e:
        sys.stderr.write(f"methods.py: {e}\n")
        sys.exit(2)
