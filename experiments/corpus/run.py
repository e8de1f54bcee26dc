"""Run a corpus of training scripts on the phantom GPU, with and without coopsim's recorder, and compare their peaks.

    python experiments/corpus/run.py [NAME …] [--table]

The scripts are those of scripts/, and those of reused.toml, which are elsewhere in the repository. Each is run twice:
by `coopsim phantom run`, and plain on the same stand-in driver, where nothing watches it. Peaks of requested, allocated
and reserved memory are to be equal to the byte. Results go to experiments/expected/corpus.csv; a script that has a row
there and reads the same is not run again. A script whose packages are not installed gets no figures; pip installs them.
--table prints the results as Markdown, and runs nothing.
"""

import ast
import csv
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from coopsim import files, phantom
from coopsim.progress import note

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULTS = HERE.parent / "expected" / "corpus.csv"
CARD = "a100-80gb"
KINDS = "requested", "allocated", "reserved"
COLUMNS = ("script", "verdict", "steps", *KINDS, "difference", "plain_s", "watched_s", "note", "digest")
_SECONDS = 300  #: for one run
#: Packages by the modules that they have, where the names differ.
_PACKAGES = {"torch_geometric": "torch-geometric", "liger_kernel": "liger-kernel"}
_OWN = {*sys.stdlib_module_names, "torch"}

#: Runs a script and writes its peaks to the file that is named first.
_PLAIN = """
import atexit, json, runpy, sys
def end():
    import torch
    stats = torch.cuda.memory_stats()
    with open(out, "w") as file:
        json.dump([stats[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")], file)
out, *sys.argv = sys.argv[1:]
import os
folder = os.path.dirname(os.path.abspath(sys.argv[0]))
sys.path[0] = folder
import torch
atexit.register(end)
os.register_at_fork(after_in_child=lambda: atexit.unregister(end))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Script:
    """A script of the corpus: its file and arguments."""

    name: str
    file: Path
    arguments: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """What its row depends on: its text and its arguments."""
        return hashlib.sha256(self.file.read_bytes() + repr(self.arguments).encode()).hexdigest()[:12]

    @property
    def missing(self) -> list[str]:
        """Packages that it imports and that are not installed."""
        tree = ast.parse(self.file.read_text(encoding="utf-8"))
        named = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        named += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        modules = {name.partition(".")[0] for name in named} - _OWN
        return sorted(_PACKAGES.get(name, name) for name in modules if util.find_spec(name) is None)


def corpus() -> list[Script]:
    """All scripts, by name."""
    own = [Script(file.stem, file) for file in (HERE / "scripts").glob("*.py")]
    reused = tomllib.loads((HERE / "reused.toml").read_text(encoding="utf-8"))
    own += [Script(name, ROOT / words[0], tuple(words[1:])) for name, words in reused.items()]
    return sorted(own, key=lambda script: script.name)


def measure(script: Script) -> dict[str, object]:
    """One row: both runs, and whether their peaks are equal."""
    row: dict[str, object] = {"script": script.name, "digest": script.digest}
    if script.missing:
        return row | {"verdict": "not run", "note": f"needs {', '.join(script.missing)}"}
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        (Path(folder) / "watched").mkdir()
        (Path(folder) / "plain").mkdir()
        report, why, watched_s = _watched(script, Path(folder, "watched"))
        if report is None:
            return row | {"verdict": "fails", "note": why, "watched_s": watched_s}
        peaks = [report[f"peak_{kind}_bytes"] for kind in KINDS]
        row |= {"verdict": report["outcome"], "steps": report["steps"], "watched_s": watched_s}
        row |= dict(zip(KINDS, peaks, strict=True))
        plain, why, plain_s = _plain(script, Path(folder, "plain"))
        row["plain_s"] = plain_s
        if plain is None:
            return row | {"note": f"plain: {why}"}
        row["difference"] = max(peaks[i] - plain[i] for i in range(3)) or min(peaks[i] - plain[i] for i in range(3))
        if report["needs_data"]:
            row["note"] = f"sizes depend on data: {', '.join(sorted({one['op'] for one in report['needs_data']}))}"
        return row


def _watched(script: Script, folder: Path) -> tuple[dict | None, str, float]:  # type: ignore[type-arg]
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", CARD, "--json", "--", str(script.file)]
    done, seconds = _run([*command, *script.arguments], folder, dict(os.environ))
    if done is None or done.returncode not in (0, 3):
        return None, _reason(done), seconds
    return json.loads(done.stdout), "", seconds


def _plain(script: Script, folder: Path) -> tuple[list[int] | None, str, float]:
    out = folder / "peaks.json"
    command = [sys.executable, "-c", _PLAIN, str(out), str(script.file), *script.arguments]
    done, seconds = _run(command, folder, os.environ | phantom.environment(CARD))
    if done is None or done.returncode or not out.exists():
        return None, _reason(done), seconds
    return json.loads(out.read_text(encoding="utf-8")), "", seconds


def _run(
    command: list[str], folder: Path, environment: dict[str, str]
) -> tuple["subprocess.CompletedProcess[str] | None", float]:
    """What came of a command, None if it took too long; and its processor time."""
    before = _processor_s()
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    environment |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2", "WANDB_DISABLED": "true"}
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        done = None
    return done, round(_processor_s() - before, 1)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reason(done: "subprocess.CompletedProcess[str] | None") -> str:
    if done is None:
        return f"took more than {_SECONDS} s"
    lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"exit code {done.returncode}"


def known() -> dict[str, dict[str, str]]:
    """The rows that there are."""
    if not RESULTS.exists():
        return {}
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return {row["script"]: row for row in csv.DictReader(file)}


def keep(rows: dict[str, dict]) -> None:  # type: ignore[type-arg]
    """Write them, by name."""
    with files.replacing(RESULTS) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in sorted(rows))


def summary(rows: dict[str, dict]) -> str:  # type: ignore[type-arg]
    """How many ran, and in how many the peaks are equal."""
    ran = [row for row in rows.values() if row["verdict"] != "not run"]
    good = [row for row in ran if row["verdict"] in ("ok", "oom")]
    equal = [row for row in good if str(row["difference"]) == "0"]
    by_data = [row for row in good if row["note"].startswith("sizes") and row not in equal]
    watched, plain = (sum(float(row[key] or 0) for row in equal) for key in ("watched_s", "plain_s"))
    return (
        f"{len(rows)} scripts; {len(ran)} run, {len(ran) - len(good)} failed; peaks equal to the byte in {len(equal)}; "
        f"sizes depend on data in {len(by_data)} others; processor time {watched:.0f} s, plain {plain:.0f} s"
    )


def main(words: list[str]) -> int:
    rows: dict[str, dict] = dict(known())  # type: ignore[type-arg]
    scripts = corpus()
    names = [word for word in words if not word.startswith("-")]
    if unknown := set(names) - {script.name for script in scripts}:
        print(f"unknown: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    rows = {name: row for name, row in rows.items() if name in {script.name for script in scripts}}
    for script in scripts:
        if "--table" in words or (names and script.name not in names):
            continue
        row = rows.get(script.name)
        done = row is not None and row["digest"] == script.digest and row["verdict"] in ("ok", "oom")
        if done and not names:
            continue
        if script.missing and row is not None and not names:  # measured where they were installed
            continue
        rows[script.name] = dict.fromkeys(COLUMNS, "") | measure(script)
        told = rows[script.name]
        note(f"{script.name}: {told['verdict']}, difference {told['difference']} {told['note']}")
        keep(rows)
    print(summary(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
