"""Run a case of live_cases.py on the GPU, or on the phantom GPU as its card.

Usage: python -m experiments.gpu.stage_live KEY FOLDER [BATCH] [--phantom].

What the program says of its steps, bits and peaks, and what `live` reports, go to one file, also if it fails: then
`failed` or `said` has why.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from experiments.gpu import live_cases, machine, names
from experiments.gpu.live_cases import Case
from experiments.gpu.stage_phantom import card_of

_PROGRAMS = Path(__file__).parent / "programs"
_SAID = 1000  #: characters


def command(case: Case, out: Path, peak_bytes: int, batch: int | None, card: str) -> list[str]:
    """What runs it. peak_bytes: of its plain run. card: the phantom's; "" for the GPU that is here."""
    file, first = case.program
    size = [] if batch is None else ["--batch", str(batch)]
    program = ["python", str(_PROGRAMS / file), first, str(out), *size, *case.more]
    gpu = ["--gpu", card] if card else []
    if case.share is None:
        watched = [sys.executable, "-m", "coopsim", "phantom", "run", *gpu, "--json", "--", *program]
        return watched if card else [sys.executable, *program[1:]]
    budget = f"{case.share:.0%}" if case.percent else f"{int(case.share * peak_bytes) >> 20}MiB"
    live = ["live", "run", "--no-cache", *gpu, "--memory", budget, "--json", *case.flags, "--", *program]
    return [sys.executable, "-m", "coopsim", *live]


def perform(case: Case, folder: Path, batch: int | None, card: str) -> dict[str, Any]:
    """Run it, and return all that is known of it."""
    peak = 0
    if case.plain:
        peak = json.loads((folder / names.live(live_cases.by_name(case.plain).key)).read_text())["max_allocated"]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out.json")
        words = command(case, out, peak, batch, card)
        done = subprocess.run(words, capture_output=True, text=True, check=False, errors="replace")  # noqa: S603
        found = json.loads(out.read_text()) if out.exists() else {"step_ms": [], "bits": None, "max_reserved": None}
    report = json.loads(done.stdout) if case.share is not None and done.stdout.lstrip().startswith("{") else None
    words = [word for word in words if word != str(out)]
    return found | {
        "name": case.name,
        "command": " ".join(words).replace(str(_PROGRAMS.parents[2]), "."),
        "exit": done.returncode,
        "failed": "" if done.returncode == 0 else _last_line(done.stderr),
        "said": done.stderr[-_SAID:] if done.returncode else "",
        "report": report,
    }


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("coopsim: ")[:300] if lines else "no reason given"


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("key")
    parser.add_argument("folder", type=Path)
    parser.add_argument("batch", type=int, nargs="?")
    parser.add_argument("--phantom", action="store_true")
    args = parser.parse_args()
    case = live_cases.get(args.key)
    start = json.loads((args.folder / names.MACHINE).read_text())["machine"]
    card = card_of(start["gpu"]) if args.phantom else ""
    start |= {"date": machine.now(), "nvidia_smi": machine.clocks()}
    found = perform(case, args.folder, args.batch, card)
    name = names.live_phantom(case.key) if args.phantom else names.live(case.key)
    machine.write(args.folder / name, found, start | {"phantom": start["phantom"] or args.phantom})
    return 0


if __name__ == "__main__":
    sys.exit(main())
