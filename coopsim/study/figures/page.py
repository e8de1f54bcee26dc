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
from coopsim.base.text import count
from coopsim.base.types import CostModel, RandomOps
from coopsim.simulate import policies
from coopsim.simulate.kernel.jit import note_if_cold
from coopsim.simulate.options import ReplayOptions
from coopsim.study.figures import page_data
from coopsim.trace import Trace
from coopsim.trace.named import load_all

POLICIES, BUDGETS = "dtr-oneflow,dte-oneflow,coop", "100%:30%:10%"
_DEFAULT = ReplayOptions()


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
