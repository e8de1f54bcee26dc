"""Peaks of many scripts, some at a time: plain on the GPU, or by `coopsim phantom run` as its card.

Usage: python -m experiments.gpu.stage_peaks SET FOLDER [--phantom]. SET: scripts or compiled.

Each script's row is kept when it is known, in a file that takes its last name when all are; a run that was cut off goes
on with the scripts that have no row. A script whose packages are not installed is left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from experiments.corpus.run import Script, corpus
from experiments.gpu import machine, names
from experiments.gpu.stage_phantom import card_of

_ROOT = Path(__file__).parents[2]
_PLAIN = Path(__file__).parent / "programs" / "peaks.py"
_AT_ONCE = 6
_LIMIT_S = {"scripts": 90, "compiled": 240}
_KINDS = ("requested", "allocated", "reserved")
_QUIET = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}


def scripts(which: str) -> list[Script]:
    """The scripts of a set."""
    if which == "compiled":
        folder = _ROOT / "experiments" / "compiled" / "scripts"
        return [Script(f"compiled_{file.stem}", file) for file in sorted(folder.glob("*.py")) if file.stem != "small"]
    folder = _ROOT / "experiments" / "fit"
    cases = tomllib.loads((folder / "cases.toml").read_text(encoding="utf-8"))
    found = {script.name: script for script in corpus()}
    for name, case in cases.items():
        program, file, *words = case["command"].replace("{", "").replace("}", "").split()
        if program == "python":  # the others are jobs of several ranks
            found[f"fit_case_{name}"] = Script(f"fit_case_{name}", folder / "scripts" / file, tuple(words))
    return list(found.values())


def measure(script: Script, card: str, limit_s: float) -> dict[str, Any]:
    """A row: the three peaks, or why there are none. card: the phantom's; "" for the GPU that is here."""
    row: dict[str, Any] = {"name": script.name, "script": str(script.file.relative_to(_ROOT))}
    row["arguments"] = " ".join(script.arguments)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "out.json")
        words = [sys.executable, str(_PLAIN), str(out), str(script.file), *script.arguments]
        if card:
            run = ("python", str(script.file), *script.arguments)
            words = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", card, "--json", "--", *run]
        try:
            done = subprocess.run(  # noqa: S603
                words, capture_output=True, text=True, check=False, errors="replace", timeout=limit_s,
                cwd=scratch, env=os.environ | _QUIET,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return row | {"failed": f"ended after {limit_s:.0f} s"}
        if not card:
            return row | (json.loads(out.read_text()) if out.exists() else {"failed": _last_line(done.stderr)})
    try:
        said = json.loads(done.stdout)
    except ValueError:
        return row | {"failed": _last_line(done.stderr)}
    return row | {kind: said[f"peak_{kind}_bytes"] for kind in _KINDS} | {"failed": ""}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("coopsim: ")[:300] if lines else "no reason given"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("set", choices=_LIMIT_S)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--phantom", action="store_true")
    parser.add_argument("--only", default="", help="a rehearsal: only these, separated by commas")
    args = parser.parse_args()
    start = json.loads((args.folder / names.MACHINE).read_text())["machine"]
    card = card_of(start["gpu"]) if args.phantom else ""
    start |= {"date": machine.now(), "nvidia_smi": machine.clocks(), "phantom": start["phantom"] or args.phantom}
    to = args.folder / names.peaks(args.set, phantom=args.phantom)
    begun = to.with_name(f"{to.stem}-begun.json")
    rows = json.loads(begun.read_text())["rows"] if begun.exists() else []
    known, lock = {row["name"] for row in rows}, threading.Lock()
    only = set(filter(None, args.only.split(",")))
    left = [s for s in scripts(args.set) if s.name not in known and not s.missing and (not only or s.name in only)]

    def add(script: Script) -> None:
        row = measure(script, card, _LIMIT_S[args.set])
        with lock:
            rows.append(row)
            machine.write(begun, {"rows": sorted(rows, key=lambda one: str(one["name"]))}, start)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(add, left))
    if rows:
        begun.replace(to)


if __name__ == "__main__":
    main()
