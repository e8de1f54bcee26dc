"""coopsim.report: one HTML file, as the command line and Python ask for it."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from coopsim.base import budget, files
from coopsim.base.errors import of_type, several, whole
from coopsim.base.progress import note, progress
from coopsim.base.text import count
from coopsim.base.types import CostModel, RandomOps
from coopsim.simulate import policies
from coopsim.simulate.kernel.jit import note_if_cold
from coopsim.simulate.options import ReplayOptions
from coopsim.study.figures import page, page_data
from coopsim.trace import Trace
from coopsim.trace.named import load_all

POLICIES, BUDGETS = "dtr-oneflow,dte-oneflow,coop", "100%:30%:10%"
_DEFAULT = ReplayOptions()


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
    page.write(data, output)
    note(f"wrote {output}: {count(total, 'replay')}")
    return Path(output)


def _known(asked: str | Sequence[str]) -> list[str]:
    names = policies.split(asked) if isinstance(asked, str) else several(asked)
    for name in names:
        policies.find(name)
    return names
