"""Run train.py on the phantom GPU, each record once: a journal keeps what was run, so a second start goes on."""

import hashlib
import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from records import Record

from coopsim import phantom
from coopsim import run as script
from coopsim.phantom import build
from coopsim.record import observe

HERE = Path(__file__).parent
PACKAGES = ("torch", "torchvision", "transformers")
#: Of the report, what the comparison uses.
KEPT = {"outcome", "peak_reserved_bytes", "peak_allocated_bytes", "retries", "smallest_memory_bytes"}
Result = dict[str, Any]


def versions() -> dict[str, str]:
    """The versions of what the runs depend on; "none" if absent."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "none"
    return found


def measure(record: Record, *, fit: bool = False) -> Result:
    """One record on the phantom GPU: what `coopsim phantom run` reports, or the error of a script that failed."""
    phantom_run = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", record.card, "--json"]
    command = [*phantom_run, *(["--fit"] if fit else []), "--", sys.executable, str(HERE / "train.py"), *record.command]
    run = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    try:
        return {key: value for key, value in json.loads(run.stdout).items() if key in KEPT}
    except ValueError:
        lines = run.stderr.strip().splitlines() or [f"exit status {run.returncode}"]
        return {"error": lines[-1][:300]}


class Journal:
    """Results by record, in a file of JSON lines that is appended to; damaged last lines are run again."""

    def __init__(self, path: Path, *, fit: bool = False) -> None:
        self.path, self.fit = path, fit
        self._lock = Lock()
        self._salt = self._inputs()
        self._found: dict[str, Result] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                    self._found[entry["key"]] = entry["result"]
                except (ValueError, KeyError, TypeError):
                    continue

    def _inputs(self) -> str:
        """Everything that a result depends on besides its record: when it changes, all is run again."""
        h = hashlib.blake2b(digest_size=8)
        ours = (file for package in (observe, script) for file in sorted(Path(package.__path__[0]).rglob("*.py")))
        for file in (HERE / "train.py", HERE / "models.py", *ours):
            h.update(file.read_bytes())
        h.update(json.dumps([versions(), build.libraries().name, self.fit]).encode())
        return h.hexdigest()

    def _key(self, record: Record) -> str:
        card = phantom.profiles.get(record.card).variables()
        text = json.dumps([self._salt, record.command, sorted(card.items())])
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def get(self, record: Record) -> Result | None:
        """What is known of a record; a failure is forgotten, so that it is tried again."""
        result = self._found.get(self._key(record))
        return None if result is None or "error" in result else result

    def add(self, record: Record, result: Result) -> None:
        line = json.dumps({"key": self._key(record), "run": record.command, "card": record.card, "result": result})
        with self._lock:
            self._found[self._key(record)] = result
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def run(records: Iterable[Record], journal: Journal, jobs: int, tick: Callable[[], None]) -> dict[Record, Result]:
    """All records, `jobs` at a time; those in the journal are not run again."""

    def one(record: Record) -> tuple[Record, Result]:
        result = journal.get(record)
        if result is None:
            result = measure(record, fit=journal.fit)
            journal.add(record, result)
        tick()
        return record, result

    with ThreadPoolExecutor(jobs) as executor:
        return dict(executor.map(one, dict.fromkeys(records)))
