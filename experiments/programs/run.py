"""Run programs that others wrote, unmodified, on the phantom GPU, and search for remedies: docs/phantom-run.md.

    python -m experiments.programs.run --checkouts FOLDER [NAME …] [--page]

The programs are those of programs.toml; FOLDER has their checkouts, which are not in this repository (README.md). Each
is run once as it is, and searched for remedies with 75 % of the memory that it took, until one with the same numbers or
by the program's own options is found (with `same`, one with the same numbers), or for 240 s of processor time from the
verdict on, which two cores give in two minutes. Data sets and models are made here (made.py). Results go to
experiments/expected/programs.csv; a program that has a row there is run again only if it is named. --page only writes
the page's table.
"""

import csv
import datetime
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping
from importlib import util
from pathlib import Path
from typing import Any, NamedTuple

from coopsim import phantom
from coopsim.base import files
from coopsim.base.progress import note
from coopsim.base.text import human
from experiments.common import arguments
from experiments.common.pages import ROOT, write_section

HERE = Path(__file__).parent
RESULTS = HERE.parent / "expected" / "programs.csv"
CARD, SHARE, SECONDS = "a100-40gb", 0.75, 240
_EQUAL = 1e-4  #: relative: an optimizer counts its steps, in four bytes per tensor
#: Of the table: what ran; the peak by kind, in bytes; remedies, and when they were found, in seconds of the processor.
COLUMNS = (
    *("program", "date", "commit", "load", "outcome", "steps", "run_s", "peak_allocated", "peak_device"),
    *("parameters", "gradients", "optimizer_state", "other"),
    *("memory", "verdict_s", "same_s", "same", "own_s", "own", "kinds", "note"),
)


class Said(NamedTuple):
    """A line that coopsim said, and when, in seconds of processor time."""

    at: float
    line: str


def programs() -> dict[str, dict[str, Any]]:
    """All, by name: `revision` of its `checkout`, `command`, `data`, and what arithmetic says (README.md)."""
    return tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))


def measure(program: Mapping[str, Any], checkouts: Path) -> dict[str, object]:
    """Return the row of a program: one run as it is, and a search for remedies."""
    missing = [name for name in program.get("needs", ()) if util.find_spec(name) is None]
    if missing:
        return {"outcome": "not run", "note": f"needs {', '.join(missing)}"}
    if "checkout" in program and not (checkouts / program["checkout"]).is_dir():
        return {"outcome": "not run", "note": f"no checkout of {program['checkout']}"}
    with tempfile.TemporaryDirectory(prefix="programs-") as made:
        folder = Path(made)
        if "checkout" in program:
            shutil.copytree(checkouts / program["checkout"], folder / "program", symlinks=True)
        else:
            (folder / "program").mkdir()
        data = folder / ("program" if "data_at" in program else "") / program.get("data_at", "data")
        data.mkdir(parents=True)
        paths = [str(ROOT), *(str(folder / "program" / path) for path in program.get("paths", ()))]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "disabled",
        }
        environment |= {"TOKENIZERS_PARALLELISM": "false", "HF_HOME": str(folder / "cache")}

        def filled(text: str) -> str:
            return text.replace("{data}", str(data)).replace("{out}", str(folder / "out"))

        if "data" in program:
            make = [sys.executable, "-m", "experiments.programs.made", program["data"], str(data)]
            subprocess.run(make, check=True, env=environment | phantom.environment(CARD), cwd=folder)  # noqa: S603
        environment |= {key: filled(value) for key, value in program.get("variables", {}).items()}
        command = shlex.split(filled(program["command"]))
        at = folder / "program" / program.get("folder", "")
        return _rows(command, program, at, environment)


def _rows(command: list[str], program: Mapping[str, Any], at: Path, environment: dict[str, str]) -> dict[str, object]:
    steps = ["--steps", str(program.get("steps", 6))]
    load = f"{os.getloadavg()[0]:.1f}"
    before = _of_children()
    text, said = _coopsim(["phantom", "run", "--json", "--gpu", CARD, *steps, "--", *command], at, environment)
    row: dict[str, object] = {"load": load, "run_s": round(_of_children() - before)}
    if not text.strip():
        return row | {"outcome": "fails", "note": said[-1].line.strip() if said else "no output"}
    found = json.loads(text)
    kinds = found["peak_by_kind"]
    row |= {"outcome": found["outcome"], "steps": found["steps"], "peak_allocated": found["peak_allocated_bytes"]}
    row |= {"peak_device": found["peak_device_bytes"]}
    row |= {kind: kinds.get(kind, 0) for kind in ("parameters", "gradients", "optimizer_state", "other")}
    if found["outcome"] != "ok" or not program.get("fit", True):
        return row
    memory = int(found["peak_device_bytes"] * SHARE) >> 20
    words = ["fit", "--json", "--time", "30m", "--gpu", CARD, "--memory", f"{memory}MiB", *steps]
    enough = ("same",) if program.get("same") else ("same", "own_s")
    text, said = _coopsim([*words, "--", *command], at, environment, enough)
    row |= {"memory": memory << 20} | _times(said)
    if not text.strip():
        return row | {"note": f"fit: {said[-1].line.strip()}" if said else "fit: no output"}
    remedies = json.loads(text)["remedies"]
    row |= {"kinds": len({one["kind"] for one in remedies})}
    added = (_added(command, one["lines"]) for one in remedies)
    return row | {"own": " ".join(next(filter(None, added), []))}


def _added(command: list[str], lines: list[str]) -> list[str]:
    """Return the options that a remedy adds to the command, or to a file; [] if it is none of the program's own."""
    words = next((shlex.split(line) for line in lines if line.startswith((command[0], "python "))), [])
    old = set(zip(command, [*command[1:], ""], strict=True))
    added: list[str] = []
    for i, word in enumerate(words):
        is_value = i > 0 and words[i - 1].startswith("-") and not word.startswith("-")
        if word not in command or (is_value and (words[i - 1], word) not in old):
            added += [words[i - 1]] * (is_value and words[i - 1] not in added[-1:]) + [word]
    return added + [line.partition("  # in ")[0] for line in lines if "  # in " in line]


def _times(said: list[Said]) -> dict[str, Any]:
    """Return when the verdict was known, and after it the first remedy with the same numbers, and by own options.

    Nothing before the verdict. A row of `fit` ends with whether numbers are the same.
    """
    verdict = next((one.at for one in said if one.line.startswith("[2]")), None)
    if verdict is None:
        return {}
    row: dict[str, Any] = {"verdict_s": round(verdict)}
    by_options: set[str] = set()  # runs that try options of the program
    fits = False  # whether one of them does, of which the row follows
    for at, line in said:
        words = line.split()
        if "of the program" in line:
            by_options.add(words[0])
        elif words and words[0] in by_options and words[1:2] == ["fits,"]:
            fits = True
        if not line.startswith("    ") or words[-1] not in ("yes", "no"):
            continue
        if fits and "own_s" not in row:
            row |= {"own_s": round(at - verdict)}
        if words[-1] == "yes" and "same" not in row:
            row |= {"same_s": round(at - verdict), "same": " ".join(words[:-4])}
    return row


def _coopsim(
    words: list[str], at: Path, environment: dict[str, str], enough: tuple[str, ...] = ()
) -> tuple[str, list[Said]]:
    """Run a command of coopsim; return its output, and when it said what.

    A search is interrupted when one of the columns `enough` is known, or SECONDS after the verdict.
    """
    said: list[Said] = []
    with tempfile.TemporaryFile("w+") as out:
        command = [sys.executable, "-m", "coopsim", *words]
        with subprocess.Popen(command, cwd=at, env=environment, stdout=out, stderr=subprocess.PIPE, text=True) as child:  # noqa: S603
            assert child.stderr is not None
            for line in child.stderr:
                said.append(Said(_processor_seconds(child.pid), line.rstrip()))
                print(line, end="", file=sys.stderr)
                if enough and _is_enough(said, enough):
                    child.send_signal(signal.SIGINT)
                    enough = ()
        out.seek(0)
        return out.read(), said


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _processor_seconds(process: int) -> float:
    """Return the time of a process and of those that it started and that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _is_enough(said: list[Said], enough: tuple[str, ...]) -> bool:
    found = _times(said)
    late = "verdict_s" in found and said[-1].at - float(found["verdict_s"]) > SECONDS
    return late or any(column in found for column in enough)


def table(rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page's table of the programs that were run."""
    lines = [
        '| program | peak | "other" | parameters and optimizer, by arithmetic | its own options | same numbers |',
        "| --- | ---: | ---: | --- | --- | --- |",
    ]
    listed = programs()
    for name, row in rows.items():
        if row["outcome"] == "not run":
            continue
        if row["outcome"] != "ok":
            lines.append(f"| {name} | fails: {row['note'] or row['outcome']} | | | | |")
            continue
        other = int(row["other"]) / int(row["peak_allocated"])
        none = "none" if row["memory"] else "not searched"
        own = f"`{row['own']}` after {row['own_s']} s" if row["own"] else none
        same = f"{row['same']} after {row['same_s']} s" if row["same"] else "" if row["own"] else none
        peak = human(int(row["peak_allocated"]))
        lines.append(f"| {name} | {peak} | {other:.1%} | {_arithmetic(row, listed[name])} | {own} | {same} |")
    count = Counter(row["commit"] or "earlier ones" for row in rows.values() if row["outcome"] != "not run")
    made = ", ".join(f"{commit} ({n})" for commit, n in count.most_common())
    return "\n".join([*lines, "", f"Rows by the commit that made them: {made}."])


def _arithmetic(row: Mapping[str, str], program: Mapping[str, Any]) -> str:
    """Return whether parameters and optimizer state have as many bytes as arithmetic says, or how far they are off."""
    if "parameters" not in program:
        return "not known"
    count = program["parameters"]
    expected = {
        "parameters": program.get("parameter_bytes", count * program.get("bytes", 4)),
        "optimizer_state": program.get(
            "optimizer_bytes", (count - program.get("untrained", 0)) * program.get("optimizer", 0)
        ),
    }
    off = [int(row[kind]) / nbytes - 1 for kind, nbytes in expected.items() if nbytes]
    return "equal" if all(abs(part) < _EQUAL for part in off) else ", ".join(f"{part:+.1%}" for part in off)


def known() -> dict[str, dict[str, str]]:
    """Return the rows that there are, by name."""
    if not RESULTS.exists():
        return {}
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return {row["program"]: row for row in csv.DictReader(file)}


def keep(rows: Mapping[str, Mapping[str, object]]) -> None:
    """Write them, in the order of programs.toml."""
    with files.replacing(RESULTS) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in programs() if name in rows)


def main(words: list[str] | None = None) -> int:
    given = arguments.parser(__doc__)
    given.add_argument("--checkouts", type=Path, help="the folder with the checkouts")
    given.add_argument("--page", action="store_true", help="only write the page's table")
    given.add_argument("names", nargs="*", metavar="NAME")
    args = given.parse_args(words)
    listed = programs()
    if unknown := set(args.names) - set(listed):
        given.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(listed)}")
    rows: dict[str, Any] = dict(known())
    if args.page:
        write_section("programs", table(rows))
        return 0
    if args.checkouts is None or not args.checkouts.is_dir():
        print(f"skipped: --checkouts FOLDER has the checkouts of {len(listed)} programs, which are not kept here")
        return 0
    asked = ["git", "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup has it ignored, also in what is started here
    for name in args.names or [name for name in listed if name not in rows]:
        note(f"--- {name}")
        found = measure(listed[name], args.checkouts.absolute())
        rows = dict(known())  # another process may run others
        if found["outcome"] != "not run" or name not in rows:
            today = datetime.datetime.now(datetime.UTC).date().isoformat()
            rows[name] = dict.fromkeys(COLUMNS, "") | {"program": name, "date": today, "commit": commit} | found
        note(f"{name}: {found['outcome']} {found.get('note', '')}")
        keep(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
