"""What to replay: the product of traces, allocators, options and policies, each at many budgets."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from coopsim import budget, policies
from coopsim.allocators import Allocator
from coopsim.options import ReplayOptions
from coopsim.sweep.options import memories, products
from coopsim.trace import Trace, load_trace


@dataclass(frozen=True)
class GridSetting:
    """All that a replay depends on but its budget."""

    trace_file: str
    trace_hash: str
    policy: str
    allocator: Allocator
    options: ReplayOptions
    peak_without_eviction_bytes: int
    card: str = ""  #: for which the trace was recorded; "" if it does not say
    precision: str = ""


@dataclass(frozen=True)
class Point:
    """One replay. `budget` is as asked for; `band_center` the memory ratio whose neighbourhood it belongs to."""

    setting: GridSetting
    budget: str
    budget_bytes: int
    band_center: float
    refined: bool = False  #: asked for because its neighbours in a map end differently

    @cached_property
    def id(self) -> str:
        """Names the replay: points of one id have one row."""
        s = self.setting
        granules = self.budget_bytes // s.allocator.granule
        what = [s.trace_hash, s.policy, asdict(s.allocator), granules, asdict(s.options)]
        return hashlib.blake2b(json.dumps(what).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Grid:
    """What to sweep. Budgets as in budget.parse_list; each becomes `band` neighbours over `band_width`.

    traces: files, `synth:NAME`, or traces. options: of ReplayOptions, and torch and alloc_conf of cuda-caching; each
    one value or a list.
    """

    traces: Sequence[str | Trace]
    policies: Sequence[str]
    allocators: Sequence[str | Allocator] = ("arena",)
    budgets: Sequence[str] = ("50%",)
    band: int = 1
    band_width: float = 0.05
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def loaded(self) -> list[tuple[str, Trace]]:
        """The traces, each with the name of its file, or its label. CoopsimError for one that cannot be read."""
        return [(t.label, t) if isinstance(t, Trace) else _named(t) for t in self.traces]

    @cached_property
    def by_hash(self) -> dict[str, Trace]:
        """What workers need: the traces, by their content hash."""
        return {trace.content_hash: trace for _, trace in self.loaded}

    def settings(self) -> list[GridSetting]:
        """All settings, in a defined order. CoopsimError for an unknown name, bad option or trace."""
        from coopsim.trace.measure import peak_bytes

        for name in self.policies:
            policies.find(name)
        rest, places = products(self.options), memories(self.allocators, self.options)
        found = []
        for (file, trace), allocator in product(self.loaded, places):
            content_hash, peak = trace.content_hash, peak_bytes(trace, allocator.granule)
            for options, policy in product(rest, self.policies):
                about = (str(trace.header.get(key, "")) for key in ("card", "precision"))
                found.append(GridSetting(file, content_hash, policy, allocator, options, peak, *about))
        return found

    def points(self) -> list[Point]:
        """All replays, in a defined order. CoopsimError as in `settings`, or for a bad budget, before anything runs."""
        offsets = np.linspace(-self.band_width / 2, self.band_width / 2, self.band).tolist() if self.band > 1 else [0.0]
        found = []
        for setting, text in product(self.settings(), self.budgets):
            peak = setting.peak_without_eviction_bytes
            allocator, asked = setting.allocator, budget.parse(text, peak)
            allocator.needs_a_block(asked, f"{setting.trace_file}: a budget of {text}, {asked} bytes,")
            center = asked / peak
            sizes = [max(allocator.granule, round((center + offset) * peak)) for offset in offsets]
            found += [Point(setting, text, size, round(center, 6)) for size in sizes]
        return found


def _named(name: str) -> tuple[str, Trace]:
    trace = load_trace(name)  # raises for what is no name
    return Path(name).name, trace
