"""From a folder of results to its tables and figures: python experiments/gpu/report.py FOLDER writes FOLDER/report.md.

Needs no GPU. Everything is computed from the folder's files; what is derived is written back beside them
(comparison.json, temporaries.json, costs.json, allocator.json), and the report says which parts were not measured.
`--accuracy` also writes the sections of docs/accuracy.md, for which results of a rehearsal on the phantom GPU are
refused.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:1] = [str(ROOT)]  # its modules are experiments.gpu's, and shadow nobody's


from coopsim import trace  # noqa: E402
from coopsim.base import files  # noqa: E402
from coopsim.base.types import CoopsimError  # noqa: E402
from coopsim.cards import profiles  # noqa: E402
from coopsim.trace import Trace  # noqa: E402
from experiments.common.pages import wrapped, write_section  # noqa: E402
from experiments.gpu import allocator, compare, executed, figures, lived, names, peaks, roofline, tables  # noqa: E402

REPORT = "report.md"
EVERY = (*names.MAIN, *names.OTHERS)


def load(folder: Path) -> dict[str, Any]:
    """The folder's facts about its machine. CoopsimError if it is no folder of results."""
    try:
        found: dict[str, Any] = json.loads((folder / names.MACHINE).read_text())["machine"]
    except (OSError, ValueError, KeyError):
        raise CoopsimError(f"{folder}: no results of experiments/gpu/run.py") from None
    return found


def recorded(folder: Path) -> dict[str, Trace]:
    """The traces that are there, by model."""
    there = [model for model in EVERY if (folder / names.trace(model)).exists()]
    return {model: trace.load(folder / names.trace(model)) for model in there}


def phantoms(folder: Path, model: str) -> tuple[str, Trace]:
    """The phantom's trace of a model: that of the folder, with the same versions, or else the committed one."""
    own = folder / names.phantom(model)
    if own.exists():
        return "same versions", trace.load(own)
    return "committed trace", trace.load(ROOT / "traces" / f"{model}.parquet")


def derive(folder: Path) -> dict[str, Any]:
    """All that the files say, and the derived files written."""
    machine = load(folder)
    traces = recorded(folder)
    spent = read(folder / names.RUN)["spent"] if (folder / names.RUN).exists() else {}
    found: dict[str, Any] = {"machine": machine, "spent": spent, "traces": {}, "temporaries": {}}
    for model, real in traces.items():
        which, simulated = phantoms(folder, model)
        found["traces"][model] = compare.compare(real, simulated) | {"phantom": which}
        found["temporaries"][model] = compare.temporaries(real, simulated)
    found["costs"] = costs(traces, machine)
    bisected = [m for m in names.MAIN if all((folder / f(m)).exists() for f in (names.smallest, names.snapshot))]
    found["allocator"] = {
        "runs": [allocator.compare(model, folder) for model in bisected],
        "steps": {model: allocator.step_peak(real) for model, real in traces.items()},
        "requests": {m: read(folder / names.requests(m)) for m in names.MAIN if (folder / names.requests(m)).exists()},
    }
    executed = [(m, p) for m in names.MAIN for p in (names.PLAIN, *names.POLICIES)]
    found["execution"] = {
        (m, p): read(folder / names.execution(m, p)) for m, p in executed if (folder / names.execution(m, p)).exists()
    }
    more = {(m, p, r): folder / names.execution(m, p, r) for m in EVERY for p in names.POLICIES for r in names.RATIOS}
    found["ratios"] = {key: read(file) for key, file in more.items() if file.exists()}
    plain = {m: folder / names.execution(m, names.PLAIN) for m in EVERY}
    found["plain"] = {m: read(file) for m, file in plain.items() if file.exists()}
    found["bits"] = {m: read(folder / names.bits(m)) for m in EVERY if (folder / names.bits(m)).exists()}
    found["peaks"], found["live"] = peaks.load(folder), lived.load(folder)
    write(folder / "comparison.json", machine, found["traces"])
    write(folder / "temporaries.json", machine, found["temporaries"])
    write(folder / "costs.json", machine, found["costs"])
    write(folder / "allocator.json", machine, {k: found["allocator"][k] for k in ("runs", "steps")})
    return found


def briefly(found: dict[str, Any]) -> dict[str, str]:
    """The sections of docs/accuracy.md, by name."""
    rows = found["peaks"]
    same = f"{sum(map(peaks.equal, rows))} of {len(rows)} scripts are equal to the byte in all three. The others:"
    sections = {
        "gpu overheads": executed.brief(found["execution"]),
        "gpu peaks": [same, "", *peaks.by_cause(rows)] if rows else ["Not measured."],
        "gpu live": lived.brief(found["live"]),
    }
    return {name: wrapped("\n".join(lines)) for name, lines in sections.items()}


def whole(found: dict[str, Any], name: str, drawn: list[str]) -> str:
    """The report: what was measured, all tables, and where the figures are."""
    parts = [tables.section(found, name, drawn, EVERY), "### Live", "", *lived.section(found["live"])]
    text = wrapped("\n".join(parts)).replace("\n### ", "\n## ")
    return f"# A GPU beside the simulation\n{text}\n"


def costs(traces: dict[str, Trace], machine: dict[str, Any]) -> dict[str, Any]:
    """Errors by model and class, and the fitted efficiencies; empty for a card without a profile."""
    card = next((name for name, title in profiles.names().items() if title == machine["gpu"]), None)
    if card is None or not traces:
        return {}
    every = [roofline.costs(t, profiles.get(card)) for t in traces.values()]
    fitted = roofline.fit([c for c in every if c.model in roofline.FIT_ON])
    return {
        "card": card,
        "fit_on": [c.model for c in every if c.model in roofline.FIT_ON],
        "launch_ns": fitted.launch_ns,
        "efficiency": fitted.efficiency,
        "errors": roofline.errors(every, fitted),
    }


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def write(path: Path, machine: dict[str, Any], content: Any) -> None:
    """A derived file: which machine it is about, and what was derived."""
    with files.replacing(path) as part:
        part.write_text(json.dumps({"machine": machine, "content": content}, separators=(",", ":")) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--accuracy", action="store_true", help="write the sections of docs/accuracy.md, too")
    args = parser.parse_args()
    try:
        if load(args.folder)["phantom"] and args.accuracy:
            raise CoopsimError(f"{args.folder} was made on the phantom GPU: no evidence")
        found = derive(args.folder)
    except CoopsimError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    images = args.folder / "images"
    images.mkdir(exist_ok=True)
    drawn = figures.draw(found, images)
    page = args.folder / REPORT
    with files.replacing(page) as part:
        part.write_text(whole(found, args.folder.resolve().name, drawn), encoding="utf-8")
    for name, lines in briefly(found).items() if args.accuracy else ():
        write_section(name, lines)
    print(f"wrote {page}, and {len(drawn)} figures in {images}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
