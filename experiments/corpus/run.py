"""Run a corpus of training scripts on the phantom GPU, with and without coopsim's recorder, and compare their peaks.

    python experiments/corpus/run.py [NAME …] [--summary]

The scripts are those of scripts/, and those of reused.toml, which are elsewhere in the repository. Each is run twice:
as `coopsim phantom run` runs it, and plain on the same stand-in driver, where nothing watches it; both in forks of one
process that has imported torch and transformers (forks.py). Peaks of requested, allocated and reserved memory are to be
equal to the byte; where the recorder answers for data on the device, which the plain script reads as zeros (masks,
values that came from the host), they are to be so without the answers (`unanswered`). Processor time is that of the
fork, without these imports. Results go to experiments/expected/corpus.csv; a script that has a row there and reads the
same is not run again. A script whose packages are not installed gets no figures; pip installs them. --summary runs
nothing.
"""

import ast
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from coopsim import phantom
from coopsim.base import files
from coopsim.base.progress import note

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULTS = HERE.parent / "expected" / "corpus.csv"
CARD, SECONDS = "a100-80gb", 25
KINDS = "requested", "allocated", "reserved"
COLUMNS = ("script", "verdict", "steps", *KINDS, "difference", "unanswered", "plain_s", "watched_s", "note", "digest")
_BY_DATA = "sizes depend on data"
_QUIET = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}
#: Packages by the modules that they have, where the names differ.
_PACKAGES = {"torch_geometric": "torch-geometric", "liger_kernel": "liger-kernel"}
_OWN = {*sys.stdlib_module_names, "torch"}


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
        """Packages that it imports and that are not installed. Modules beside it are its own."""
        tree = ast.parse(self.file.read_text(encoding="utf-8"))
        named = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        named += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        modules = {name.partition(".")[0] for name in named} - _OWN - {file.stem for file in self.file.parent.glob("*")}
        return sorted(_PACKAGES.get(name, name) for name in modules if util.find_spec(name) is None)


def corpus() -> list[Script]:
    """All scripts, by name."""
    own = [Script(file.stem, file) for file in (HERE / "scripts").glob("*.py")]
    reused = tomllib.loads((HERE / "reused.toml").read_text(encoding="utf-8"))
    own += [Script(name, ROOT / words[0], tuple(words[1:])) for name, words in reused.items()]
    return sorted(own, key=lambda script: script.name)


def measure(
    scripts: Sequence[Script], card: str = CARD, seconds: int = SECONDS, *, plain: bool = True
) -> Iterator[dict[str, object]]:
    """A row of each: both runs, and whether their peaks are equal. plain: False leaves out the run that is not watched.

    seconds: of processor time, after which a run is ended.
    """
    ready = [script for script in scripts if not script.missing]
    for script in scripts:
        if script.missing:
            needs = f"needs {', '.join(script.missing)}"
            yield {"script": script.name, "digest": script.digest, "verdict": "not run", "note": needs}
    if not ready:
        return
    environment = os.environ | phantom.environment(card) | phantom.compiler_caches() | _QUIET
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, str(HERE / "forks.py"), card, str(seconds), *([] if plain else ["--watched"])]
    with tempfile.TemporaryFile("w+") as task:
        json.dump([[str(script.file), list(script.arguments)] for script in ready], task)
        task.seek(0)
        with subprocess.Popen(command, env=environment, stdin=task, stdout=subprocess.PIPE, text=True) as child:  # noqa: S603
            assert child.stdout is not None
            for script, line in zip(ready, child.stdout, strict=True):
                yield {"script": script.name, "digest": script.digest} | row(json.loads(line))


def row(found: dict[str, dict]) -> dict[str, object]:  # type: ignore[type-arg]
    """Of what forks.py says of a script."""
    plain, watched = found.get("plain"), found["watched"]
    times: dict[str, object] = {"plain_s": plain["seconds"] if plain else "", "watched_s": watched["seconds"]}
    if watched["failed"]:
        return times | {"verdict": "fails", "note": watched["failed"]}
    done = times | {"verdict": watched["verdict"], "steps": watched["steps"]}
    done |= dict(zip(KINDS, watched["peaks"], strict=True))
    if plain and plain["failed"] and watched["verdict"] == "ok":
        return done | {"note": f"plain: {plain['failed']}"}
    if plain:
        done["difference"] = _difference(watched, plain)
    if "unanswered" in found:
        done["unanswered"] = _difference(found["unanswered"], plain)
    if watched["needs_data"]:
        done["note"] = f"{_BY_DATA}: {', '.join(watched['needs_data'])}"
    return done


def _difference(one: dict[str, list[int]], other: dict[str, list[int]]) -> int:
    """The largest of the three."""
    return max((a - b for a, b in zip(one["peaks"], other["peaks"], strict=True)), key=abs)


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
    by_data = [row for row in good if str(row["unanswered"]) == "0"]
    watched, plain = (sum(float(row[key] or 0) for row in equal) for key in ("watched_s", "plain_s"))
    return (
        f"{len(rows)} scripts; {len(ran)} run, {len(ran) - len(good)} failed; peaks equal to the byte in {len(equal)}, "
        f"in {len(by_data)} more if nothing is answered about data on the device; "
        f"processor time {watched:.0f} s, plain {plain:.0f} s"
    )


def main(words: list[str]) -> int:
    rows: dict[str, dict] = dict(known())  # type: ignore[type-arg]
    scripts = {script.name: script for script in corpus()}
    names = [word for word in words if not word.startswith("-")]
    if unknown := set(names) - set(scripts):
        print(f"unknown: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    rows = {name: row for name, row in rows.items() if name in scripts}
    wanted = [scripts[name] for name in names] or [one for one in scripts.values() if not _is_known(one, rows)]
    for found in measure([] if "--summary" in words else wanted):
        told = rows[str(found["script"])] = dict.fromkeys(COLUMNS, "") | found
        note(f"{told['script']}: {told['verdict']}, difference {told['difference']} {told['note']}")
        keep(rows)
    print(summary(rows))
    return 0


def _is_known(script: Script, rows: dict[str, dict]) -> bool:  # type: ignore[type-arg]
    """Has it a row, of its text as it is, or one that was made where its packages were?"""
    row = rows.get(script.name)
    if row is None or row["digest"] != script.digest:
        return False
    return row["verdict"] in ("ok", "oom") or bool(script.missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
