"""Search for remedies of the scripts in cases.toml; write the table of docs/fit.md.

    python experiments/fit/run.py [NAME …]

Each script takes some minutes. Results that are there already are kept (remove experiments/expected/fit/NAME.json).
"""

import json
import os
import sys
import tomllib
from pathlib import Path

from coopsim import CoopsimError, budget, files
from coopsim.fit import Search
from coopsim.progress import note
from coopsim.script import Script

HERE = Path(__file__).parent
RESULTS = HERE.parent / "expected" / "fit"
CARD = "rtx-3060"


def main(names: list[str]) -> None:
    cases = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))
    unknown = [name for name in names if name not in cases]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; known: {', '.join(cases)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    os.chdir(HERE / "scripts")
    for name in names or cases:
        target = RESULTS / f"{name}.json"
        if not target.exists():
            note(f"--- {name}")
            found = _search(cases[name])
            with files.replacing(target) as part:
                part.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(table(cases))


def _search(case: dict[str, str]) -> dict[str, object]:
    nbytes = budget.parse(case["memory"], None)
    script = Script(tuple(case["command"].split()), card=CARD, memory_bytes=nbytes)
    try:
        found = Search(script, say=note).run()
    except CoopsimError as e:
        return {"error": str(e)}
    return found.to_dict() | {"runs": found.runs}


def table(cases: dict[str, dict[str, str]]) -> str:
    """One row per remedy, in Markdown."""
    rows = ["| script | needs, of | remedy | peak | time | same numbers |", "| --- | --- | --- | --- | --- | --- |"]
    for name, case in cases.items():
        path = RESULTS / f"{name}.json"
        if not path.exists():
            continue
        found = json.loads(path.read_text(encoding="utf-8"))
        if "error" in found:
            rows.append(f"| {case['title']} | | {found['error']} | | | |")
            continue
        head = f"| {case['title']} | {found['needs_bytes'] >> 20} of {found['memory_bytes'] >> 20} MiB "
        for remedy in found["remedies"]:
            by_hand = "*" if remedy["kind"] in case["by_hand"] else ""
            rows.append(
                f"{head}| {remedy['kind']}{by_hand}: {remedy['text'].partition(':')[0]} "
                f"| {remedy['peak_device_bytes'] >> 20} MiB | {remedy['time_ratio'] - 1:+.1%} "
                f"| {'yes' if remedy['same_numbers'] else 'no'}{'' if remedy['verified'] else ' (does not fit)'} |"
            )
            head = "| | "
    return "\n".join(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
