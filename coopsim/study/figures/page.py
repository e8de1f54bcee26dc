"""Replays of traces as one HTML file: template, style, script and data. It loads nothing and runs no other script."""

import base64
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from string import Template
from typing import Any

from coopsim.base import budget, files
from coopsim.base.errors import of_type, several, whole
from coopsim.base.files import replacing
from coopsim.base.progress import note, progress
from coopsim.base.text import count, human
from coopsim.base.types import CostModel, RandomOps
from coopsim.simulate import policies
from coopsim.simulate.kernel.jit import note_if_cold
from coopsim.simulate.options import ReplayOptions
from coopsim.study.figures import page_data
from coopsim.trace import Trace
from coopsim.trace.measure import info
from coopsim.trace.named import load_all

POLICIES, BUDGETS = "dtr-oneflow,dte-oneflow,coop", "100%:30%:10%"
_DEFAULT = ReplayOptions()
_SETTINGS = ("batch", "sequence", "optimizer", "precision", "amp", "attention")
_ORIGIN = ("source", "command", "device", "cost_source", "temporaries")


def facts(trace: "Trace") -> dict[str, Any]:
    """`label` and `title` of the trace, and lists of (name, text): `facts` first, `provenance` for who wants it."""
    found = info(trace)
    header = found["header"]
    steps, at_start = found["steps"], found["bytes_at_start"]
    phases = ", ".join(f"{n} {phase}" for phase, n in found["ops_by_phase"].items())
    known = {**header, **({"precision": trace.precision} if trace.precision else {})}
    settings = [(name, str(known[name])) for name in _SETTINGS if name in known]
    roles = ", ".join(f"{role.replace('_', ' ')} {human(n)}" for role, n in found["bytes_by_role"].items())
    versions = header.get("versions")
    versions = versions.items() if isinstance(versions, dict) else ()
    cautions = header.get("approximations", ())
    return {
        "label": trace.label,
        "title": str(header.get("title", "")),
        "facts": [
            *settings,
            ("ops", f"{found['ops']} ({phases})" + (f" in {steps} steps" if steps > 1 else "")),
            ("storages", f"{found['storages']}, {human(at_start)} there at the start"),
            ("peak without eviction", human(found["peak_bytes_rounded"])),
            ("cost", f"{found['base_cost_ns'] / 1e6:.1f} ms per recording, {found['flops'] / 1e12:.2f} TFLOP"),
        ],
        "provenance": [
            ("hash", found["content_hash"]),
            ("recorded with", ", ".join(f"{name} {version}" for name, version in versions) or "unknown"),
            *((name.replace("_", " "), str(header[name])) for name in _ORIGIN if name in header),
            ("made, by role", roles),
            ("in place, random", f"{found['in_place_ops']} ops in place, {found['random_ops']} random"),
            *(("caution", str(text)) for text in cautions),
        ],
    }


_SCRIPTS = ("format", "dom", "data", "charts", "view", "map", "axes", "input", "tables", "app")


def html(data: Mapping[str, Any]) -> str:
    """The whole page for `collect`'s data. The same data gives the same text.

    Names from traces are text everywhere: the data is JSON in which no `<` is left, the script makes text nodes of it,
    and the page's own policy refuses every script and style but the two of this package.
    """
    script = '"use strict";\n(() => {\n' + "\n".join(_read(f"{name}.js") for name in _SCRIPTS) + "})();\n"
    style = _read("style.css")
    policy = f"default-src 'none'; img-src data:; script-src {_hash(script)}; style-src {_hash(style)}"
    return Template(_read("page.html")).substitute(
        policy=policy,
        title=escape(", ".join(str(trace["label"]) for trace in data["traces"])),
        style=style,
        script=script,
        data=_json(data),
    )


def write(data: Mapping[str, Any], path: str | Path) -> None:
    """Write the page, whole or not at all. CoopsimError if it cannot be written."""
    text = html(data).encode()
    with replacing(path) as part:
        part.write_bytes(text)


def _read(name: str) -> str:
    return (resources("coopsim.study.figures") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e")


def report(
    traces: Trace | str | Path | Sequence[Trace | str | Path],
    output: str | Path,
    policies: str | Sequence[str] = POLICIES,
    budgets: str | Sequence[str] = BUDGETS,
    *,
    band: int = 5,
    band_width: float = 0.05,
    steps: int = _DEFAULT.steps,
    cost_model: CostModel | str = _DEFAULT.cost_model,
    random: RandomOps | str = _DEFAULT.random,
    overhead_limit: float = _DEFAULT.overhead_limit,
    seed: int = _DEFAULT.seed,
) -> Path:
    """Replay over policies and budgets, write one HTML file that needs no network, and return its path.

    traces, policies, budgets, band: as of `sweep`. The rest is as of `replay`. CoopsimError for invalid arguments, and
    where the file cannot be written.
    """
    whole("band", band, 1, "how many neighbouring budgets")
    of_type("output", str(output) if isinstance(output, Path) else output, str, "the HTML file to write")
    files.target(str(output))
    ask = page_data.Ask(
        policies=_known(policies),
        budgets=[one for text in several(budgets) for one in budget.parse_list(text)],
        band=band,
        band_width=band_width,
        options=ReplayOptions(steps, cost_model, random, overhead_limit, seed=seed),
    )
    loaded = [trace for _, trace in load_all(several(traces))]
    total = sum(ask.replays(trace) for trace in loaded)
    note_if_cold()
    with progress("replays", total) as tick, redirect_stdout(sys.stderr):  # of policies that print
        data = page_data.collect(loaded, ask, tick)
    write(data, output)
    note(f"wrote {output}: {count(total, 'replay')}")
    return Path(output)


def _known(asked: str | Sequence[str]) -> list[str]:
    names = policies.split(asked) if isinstance(asked, str) else several(asked)
    for name in names:
        policies.find(name)
    return names
