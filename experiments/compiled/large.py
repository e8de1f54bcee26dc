"""GPT-2 and BERT-Large compiled, at their real size: peaks, smallest memory, a trace, its replays.

    python experiments/compiled/large.py

runs scripts/gpt2.py and scripts/bert_large.py on the phantom GPU (some minutes each), records a step, replays it under
Coop and Foresight and has `coopsim validate` judge the schedules; writes experiments/expected/compiled-large.csv and
compiled-large-replays.csv, to which docs/compiled.md links.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from asked import ROOT, ask

import coopsim
from coopsim.base.types import CoopsimError

EXPECTED = ROOT / "experiments" / "expected"
CARD = "a100-80gb"
SCRIPTS = ("gpt2", "bert_large")
POLICIES = ("coop", "foresight")
BUDGETS = ("90%", "75%", "60%")
PEAKS = (
    *("peak_allocated_bytes", "peak_reserved_bytes", "first_step_peak_reserved_bytes"),
    *("steady_peak_reserved_bytes", "steady_peak_allocated_bytes"),
)


def run(name: str, kept: Path) -> dict[str, Any]:
    """Compiled with an empty cache, its smallest memory, and eager's peaks."""
    script = str(Path(__file__).parent / "scripts" / f"{name}.py")
    words = ("phantom", "run", "--gpu", CARD, "--json")
    with tempfile.TemporaryDirectory() as cache:
        said = ask(kept / f"{name}.fit.json", *words, "--fit", "--", "python", script, XDG_CACHE_HOME=cache)
    eager = ask(kept / f"{name}.eager.json", *words, "--", "python", script, TORCHDYNAMO_DISABLE="1")
    return {
        "script": name,
        "graphs": said["compiled_graphs"],
        "graph_breaks": len(said["graph_breaks"]),
        **{key: said[key] for key in PEAKS},
        "peak_device_bytes": said["peak_device_bytes"],
        "smallest_memory_bytes": said["smallest_memory_bytes"],
        "fit_runs": said["fit_runs"],
        **{f"eager_{key}": eager[key] for key in PEAKS[:2]},
    }


def record(name: str, kept: Path) -> Path:
    """A trace of a steady step."""
    trace = kept / f"{name}.parquet"
    if not trace.exists():
        print(trace.stem, "trace", file=sys.stderr, flush=True)
        script = str(Path(__file__).parent / "scripts" / f"{name}.py")
        command = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", CARD, "--trace", str(trace)]
        done = subprocess.run([*command, "--", "python", script], check=False, capture_output=True, text=True)  # noqa: S603
        if done.returncode:
            raise CoopsimError(f"{name}: {done.stderr.splitlines()[-1]}")
    return trace


def replays(name: str, file: Path) -> list[dict[str, Any]]:
    """The step, ten times in one memory, under every policy and budget."""
    trace, table = coopsim.load(file), []
    for policy in POLICIES:
        for budget in BUDGETS:
            schedule = coopsim.replay(trace, policy, budget=budget)
            said = coopsim.summary(schedule, trace)
            row = {"script": name, "policy": policy, "budget": budget, "outcome": said["outcome"]}
            row |= {"overhead": f"{said['overhead']:.4f}" if said["outcome"] == "ok" else ""}
            row |= {key: said[key] for key in ("peak_bytes", "recomputes", "planned_steps")}
            row |= {"problems": len(coopsim.validate(schedule, trace)), "cost_model": "prices by class"}
            table.append(row)
    return table


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """A table of expected results."""
    target = EXPECTED / name
    part = target.with_name(f".{name}.part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    part.replace(target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, default=ROOT / "out" / "compiled", help="folder of what was answered")
    kept = parser.parse_args().kept
    runs: list[dict[str, Any]] = []
    replayed: list[dict[str, Any]] = []
    try:
        for name in SCRIPTS:
            runs.append(run(name, kept))
            file = record(name, kept)
            header = coopsim.load(file).header
            runs[-1] |= {key: header[key] for key in ("peak_live_bytes", "workspace_bytes", "peak_requested_bytes")}
            replayed += replays(name, file)
    except CoopsimError as error:
        sys.stderr.write(f"large.py: {error}\n")
        return 2
    write("compiled-large.csv", runs)
    write("compiled-large-replays.csv", replayed)
    print(json.dumps(runs, indent=1), json.dumps(replayed, indent=1), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
