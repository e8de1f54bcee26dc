"""What the page shows: every replay's figures and residencies, the curves' bands, and what the traces are.

Residencies are a string: JSON, deflated, in base64. page/data.js reads it back.
"""

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from coopsim.base import budget
from coopsim.base.text import human
from coopsim.simulate import allocators, policies
from coopsim.simulate.metrics import SUMMARY_KEYS, WALL_CLOCK_COLUMNS, explain, summary
from coopsim.simulate.options import ReplayOptions
from coopsim.study.figures import style
from coopsim.study.figures.bands import bands
from coopsim.study.figures.residences import ROLES, Residences, residences
from coopsim.trace.measure import info, peak_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coopsim.trace import Trace
    from coopsim.trace.schedule import Schedule

ALLOCATOR = "arena"  #: a page's slider needs one memory for all
_CURVES = ("overhead", "fragmentation_rate")
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


@dataclass(frozen=True)
class Ask:
    """Which replays. budgets: as in budget.parse, the same for each trace; each becomes `band` neighbours over
    `band_width` of the peak for the curves.
    """

    policies: Sequence[str]
    budgets: Sequence[str]
    band: int = 1
    band_width: float = 0.05
    options: ReplayOptions = field(default_factory=ReplayOptions)

    def sizes(self, trace: "Trace") -> list[int]:
        """The budgets in bytes, smallest first, none twice. CoopsimError for one that is none."""
        granule = allocators.find(ALLOCATOR).granule
        peak = peak_bytes(trace, granule)
        rounded = {budget.parse(text, peak) // granule * granule or granule for text in self.budgets}
        return sorted(rounded)

    def neighbours(self, nbytes: int, trace: "Trace") -> list[int]:
        """Budgets around one, from lowest to highest; only itself where the band is 1."""
        if self.band == 1:
            return [nbytes]
        granule = allocators.find(ALLOCATOR).granule
        half = self.band_width * peak_bytes(trace, granule) / 2
        sizes = [round(nbytes + offset) for offset in np.linspace(-half, half, self.band).tolist()]
        return [max(granule, size // granule * granule) for size in sizes]

    def replays(self, trace: "Trace") -> int:
        """How many replays `collect` makes of a trace, and so calls of its `tick`."""
        return len(set(self.policies)) * sum(len({n, *self.neighbours(n, trace)}) for n in self.sizes(trace))


def collect(traces: "Sequence[Trace]", ask: Ask, tick: Callable[[], None]) -> dict[str, Any]:
    """Replay, and return the page's data, which JSON can hold. tick() is called after each replay.

    CoopsimError for an unknown policy, a bad budget or option, or a trace that cannot be repeated.
    """
    from coopsim.version import __version__

    for name in ask.policies:
        policies.find(name)
    names = list(dict.fromkeys(ask.policies))
    called, roles = policies.shown(names), style.looks("role")
    looks = style.policies(called.values())
    return {
        "coopsim": __version__,
        "steps": ask.options.steps,
        "allocator": ALLOCATOR,
        "cost_model": ask.options.cost_model,
        "band": ask.band,
        "band_width": ask.band_width,
        "policies": [{"name": n, **vars(looks[called[n]])} for n in style.order(names)],
        "roles": [{"label": roles[r].label, "color": roles[r].color} for r in (*ROLES, style.RECOMPUTED)],
        "traces": [_trace(t, ask, style.order(names), tick) for t in traces],
    }


def _trace(trace: "Trace", ask: Ask, names: list[str], tick: Callable[[], None]) -> dict[str, Any]:
    """One trace: what it is, its replays (a policy after another, the smallest budget first) and its curves."""
    peak = peak_bytes(trace, allocators.find(ALLOCATOR).granule)
    sizes = ask.sizes(trace)
    replays = {(name, n): _replay(trace, ask, name, n, tick) for name, n in product(names, sizes)}
    words: dict[str, int] = {}
    ops = [[words.setdefault(w, len(words)) for w in row] for row in zip(trace.name, trace.module, strict=True)]
    phases = list(dict.fromkeys(trace.phase))
    return {
        **facts(trace),
        "peak_bytes": peak,
        "budgets": [{"bytes": n, "ratio": n / peak} for n in sizes],
        "replays": list(replays.values()),
        "curves": {name: _curves(trace, ask, {n: replays[name, n] for n in sizes}, peak, tick) for name in names},
        "words": list(words),
        "ops": {"name": [o[0] for o in ops], "module": [o[1] for o in ops]},
        "phases": phases,
        "phase_of": [phases.index(p) for p in trace.phase],
        "role_of": [ROLES.index(r) for r in trace.role],
    }


def _replay(trace: "Trace", ask: Ask, name: str, nbytes: int, tick: Callable[[], None]) -> dict[str, Any]:
    """One replay: its figures, what stood in the way if it failed, and its first and its last step."""
    from coopsim.simulate.replay import record

    schedule = record(trace, name, nbytes, ALLOCATOR, ask.options)
    row = summary(schedule)
    steps = _steps(schedule, trace)
    tick()
    return {
        **{key: row[key] for key in SUMMARY_KEYS if key not in WALL_CLOCK_COLUMNS},
        "explained": None if row["outcome"] == "ok" else explain(row),
        "maps": [{"step": r.step, "length_ns": r.length_ns, "phases": r.phases} for r in steps],
        "residencies": pack(steps, schedule.header["granule"]),
    }


def _steps(schedule: "Schedule", trace: "Trace") -> list[Residences]:
    """The first and the last step that it came to; one if they are the same, none if nothing was placed."""
    if not len(schedule):
        return []
    last = residences(schedule, trace)
    return [last] if last.step == 0 else [residences(schedule, trace, 0), last]


def _curves(
    trace: "Trace", ask: Ask, replays: dict[int, dict[str, Any]], peak: int, tick: Callable[[], None]
) -> dict[str, list[list[Any]]]:
    """For each quantity and budget: ratio, neighbours tried, neighbours that fit, mean, least, greatest."""
    import pandas as pd

    from coopsim.simulate.replay import measure

    rows = []
    for nbytes, replay in replays.items():
        known = {nbytes: replay}
        for size in ask.neighbours(nbytes, trace):
            if size not in known:
                known[size] = measure(trace, replay["policy"], size, ALLOCATOR, ask.options)
                tick()
            rows.append({k: known[size][k] for k in ("outcome", *_CURVES)} | {"band_center": nbytes / peak})
    df = pd.DataFrame(rows)
    found = {}
    for quantity in _CURVES:
        points = bands(df, df[quantity].astype("float64"), "range")
        found[quantity] = [[None if x != x else x for x in point] for point in points]
    return found


RECOMPUTED, EARLIER, EVICTED = 1, 2, 4  #: bits of `flags`


def pack(steps: "list[Residences]", granule: int) -> str:
    """The residencies of some steps, a list of columns each, by their begin; times in ns, bytes in granules.

    `begin`, `address` and `op` are differences to the row before, which deflate makes small.
    """
    return base64.b64encode(zlib.compress(_json([_columns(r, granule) for r in steps]), 9)).decode()


def _columns(r: "Residences", granule: int) -> dict[str, list[int]]:
    rows = np.lexsort((r.address, r.begin_ns))
    flags = RECOMPUTED * r.recomputed + EARLIER * r.earlier + EVICTED * r.evicted
    columns = {
        "begin": _differences(r.begin_ns[rows]),
        "length": (r.end_ns - r.begin_ns)[rows],
        "address": _differences(r.address[rows] // granule),
        "bytes": r.bytes[rows] // granule,
        "storage": r.storage[rows],
        "op": _differences(r.op[rows]),
        "flags": flags[rows],
    }
    return {name: column.tolist() for name, column in columns.items()}


def _differences(column: "NDArray[np.int64]") -> "NDArray[np.int64]":
    return np.diff(column, prepend=0)


def _json(what: Any) -> bytes:
    return json.dumps(what, separators=(",", ":")).encode()
