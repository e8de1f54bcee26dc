"""Run the corpus and tests/versions with other versions of PyTorch, and make the table of docs/install.md.

    python experiments/versions/run.py [TORCH …] [--folder FOLDER] [--test NAME] [--table]

Each version of environments.toml has an environment of its own in FOLDER (out/versions), made if it is not there, which
takes some 3 GB; beside it are the results of the corpus, so that a run that was stopped goes on where it was. A version
takes some minutes; with a row in experiments/expected/versions.csv it is run again only if it is named. --test measures
one column of TESTS anew, in rows that are there. --table prints the page's table of what there is, and runs nothing.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

from environment import make

from coopsim.base import files
from coopsim.base.progress import note

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "experiments" / "expected" / "versions.csv"
#: Of tests/versions: test_capture, …; test_phantom is in the corpus.
TESTS = ("capture", "fit", "live", "compiled", "allocator")
CARDS = ("a100-80gb", "h100-80gb", "rtx-5070-ti")  #: of compute capability 8.0, 9.0, 12.0
COLUMNS = ("torch", "transformers", "scripts", "equal", "by_data", "plain_fails", "failed", *TESTS, *CARDS, "libraries")

#: Runs the corpus, as experiments/corpus/run.py does, with results in the file that is named.
_CORPUS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import run
run.RESULTS = Path(sys.argv[2])
sys.exit(run.main(sys.argv[3:]))
"""

#: Prints what one product of matrices takes beside them at its peak: cuBLAS's workspace.
_WORKSPACE = """
import torch
x = torch.ones(512, 512, device="cuda")
before = torch.cuda.memory_allocated()
y = x @ x
print(torch.cuda.max_memory_allocated() - before - y.nbytes)
"""


def row(version: str, about: dict, folder: Path) -> dict[str, object]:  # type: ignore[type-arg]
    """Measure a version."""
    libraries = about.get("libraries", ())
    python = _made(version, about, folder)
    found: dict[str, object] = {"torch": version, "transformers": about["transformers"]}
    found["libraries"] = " ".join(libraries)
    found |= _corpus(python, folder / f"corpus-{version}.csv")
    found |= _tests(python, folder / f"tests-{version}.xml")
    return found | {card: _workspace(python, card) for card in CARDS}


def one_test(version: str, about: dict, folder: Path, test: str) -> dict[str, object]:  # type: ignore[type-arg]
    """Measure one column of the tests."""
    found = _tests(_made(version, about, folder), folder / f"test-{test}-{version}.xml", "-k", f"test_{test}")
    return {test: found[test]}


def _made(version: str, about: dict, folder: Path) -> Path:  # type: ignore[type-arg]
    needs = about.get("needs", ())
    return make(folder / version, version, about["transformers"], about.get("libraries", ()), needs)


def _corpus(python: Path, results: Path) -> dict[str, object]:
    command = [str(python), "-c", _CORPUS, str(ROOT / "experiments" / "corpus"), str(results)]
    subprocess.run(command, check=True)  # noqa: S603
    with results.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["verdict"] != "not run"]
    good = [row for row in rows if row["verdict"] in ("ok", "oom")]
    compared = [row for row in good if row["difference"]]
    equal = [row for row in compared if row["difference"] == "0"]
    by_data = [row for row in compared if row["unanswered"] == "0"]
    differ = [row["script"] for row in compared if row not in equal and row not in by_data]
    failed = [row["script"] for row in rows if row not in good]
    return {
        "scripts": len(rows),
        "equal": len(equal),
        "by_data": len(by_data),
        "plain_fails": len(good) - len(compared),
        "failed": " ".join(sorted(failed + differ)),
    }


def _tests(python: Path, results: Path, *select: str) -> dict[str, object]:
    """Whether each test passes; "" for one that did not run, as pytest's arguments `select` leave it out."""
    command = [str(python), "-m", "pytest", "tests/versions", f"--junitxml={results}", *select]
    subprocess.run([*command, "--deselect", "tests/versions/test_versions.py::test_phantom"], check=False, cwd=ROOT)  # noqa: S603
    said = {}
    for case in ElementTree.parse(results).iter("testcase"):  # noqa: S314
        ended = {part.tag for part in case}
        verdict = "no" if ended & {"failure", "error"} else "-" if "skipped" in ended else "yes"
        said[case.get("name", "").removeprefix("test_")] = verdict
    return {name: said.get(name, "") for name in TESTS}


def _workspace(python: Path, card: str) -> int:
    """Bytes that cuBLAS's workspace takes on a card."""
    text = "import json\nfrom coopsim import phantom\nprint(json.dumps(phantom.environment({card!r})))"
    variables = json.loads(_said(python, text.format(card=card), {}))
    return int(_said(python, _WORKSPACE, variables))


def _said(python: Path, text: str, variables: dict[str, str]) -> str:
    command = [str(python), "-c", text]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | variables)  # noqa: S603
    return done.stdout


def known() -> dict[str, dict]:  # type: ignore[type-arg]
    """The rows that there are, by version."""
    if not RESULTS.exists():
        return {}
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return {row["torch"]: row for row in csv.DictReader(file)}


def keep(rows: dict[str, dict]) -> None:  # type: ignore[type-arg]
    """Write them, in the order of versions."""
    with files.replacing(RESULTS) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in sorted(rows, key=lambda v: tuple(map(int, v.split(".")))))


def table(rows: dict[str, dict]) -> str:  # type: ignore[type-arg]
    """The table of docs/install.md."""
    head = ("PyTorch", "transformers", "phantom equal to plain", *TESTS)
    lines = [head, ("---",) * len(head)]
    for one in rows.values():
        compared = int(one["scripts"]) - int(one["plain_fails"])
        equal = int(one["equal"]) + int(one["by_data"])
        lines.append((one["torch"], one["transformers"], f"{equal} of {compared}", *(one[name] for name in TESTS)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="TORCH")
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "versions")
    parser.add_argument("--test", choices=TESTS)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    environments = tomllib.loads((HERE / "environments.toml").read_text(encoding="utf-8"))
    if unknown := set(args.versions) - set(environments):
        print(f"not in environments.toml: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    rows = known()
    if args.test and (missing := set(args.versions) - set(rows)):
        print(f"no row yet: {', '.join(sorted(missing))}", file=sys.stderr)
        return 2
    wanted = args.versions or [version for version in environments if (version in rows) == bool(args.test)]
    for version in () if args.table else wanted:
        args.folder.mkdir(parents=True, exist_ok=True)
        if args.test:
            found = rows[version] | one_test(version, environments[version], args.folder, args.test)
        else:
            found = row(version, environments[version], args.folder)
        note(f"{version}: {found}")
        keep(known() | {version: found})
    print(table(known()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
