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

from coopsim import allocators, budget, policies
from coopsim.sweep.options import memories, products
from coopsim.trace import Trace


@dataclass(frozen=True)
class Setting:
    """All that a replay depends on but its budget. torch, alloc_conf: of the allocator cuda-caching, else None."""

    trace_file: str
    trace_hash: str
    policy: str
    allocator: str
    torch: str | None
    alloc_conf: str | None
    steps: int
    decide_by: str
    random: str
    overhead_limit: float
    peak_without_eviction_bytes: int

    def options(self) -> dict[str, Any]:
        """Options of replay.measure."""
        names = ("steps", "decide_by", "random", "overhead_limit", "torch", "alloc_conf")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True)
class Point:
    """One replay. `budget` is as asked for; `band_center` the memory ratio whose neighbourhood it belongs to."""

    setting: Setting
    budget: str
    budget_bytes: int
    band_center: float
    refined: bool = False  #: asked for because its neighbours in a map end differently

    @cached_property
    def id(self) -> str:
        """Names the replay: points of one id have one row."""
        s = self.setting
        granules = self.budget_bytes // allocators.find(s.allocator).granule
        what = [s.trace_hash, s.policy, s.allocator, granules, sorted(s.options().items())]
        return hashlib.blake2b(json.dumps(what).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Grid:
    """What to sweep. Budgets as in budget.parse_list; each becomes `band` neighbours over `band_width`.

    options: of replay.measure (steps, decide_by, random, overhead_limit, torch, alloc_conf), each one value or a list.
    """

    traces: Sequence[str]
    policies: Sequence[str]
    allocators: Sequence[str] = ("arena",)
    budgets: Sequence[str] = ("50%",)
    band: int = 1
    band_width: float = 0.05
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def loaded(self) -> list[tuple[str, Trace]]:
        """The traces, each with the name of its file. CoopsimError for one that cannot be read."""
        return [(Path(file).name, load(file)) for file in self.traces]

    @cached_property
    def by_hash(self) -> dict[str, Trace]:
        """What workers need: the traces, by their content hash."""
        return {trace.content_hash: trace for _, trace in self.loaded}

    def settings(self) -> list[Setting]:
        """All settings, in a fixed order. CoopsimError for an unknown name, bad option or trace."""
        from coopsim.trace.measure import peak_bytes

        for name in self.policies:
            policies.find(name)
        rest, places = products(self.options), memories(self.allocators, self.options)
        found = []
        for (file, trace), (allocator, memory) in product(self.loaded, places):
            content_hash, peak = trace.content_hash, peak_bytes(trace, allocators.find(allocator).granule)
            for options, policy in product(rest, self.policies):
                found.append(
                    Setting(
                        trace_file=file,
                        trace_hash=content_hash,
                        policy=policy,
                        allocator=allocator,
                        torch=memory["torch"],
                        alloc_conf=memory["alloc_conf"],
                        peak_without_eviction_bytes=peak,
                        **options,
                    )
                )
        return found

    def points(self) -> list[Point]:
        """All replays, in a fixed order. CoopsimError as in `settings`, or for a bad budget, before anything runs."""
        offsets = np.linspace(-self.band_width / 2, self.band_width / 2, self.band).tolist() if self.band > 1 else [0.0]
        found = []
        for setting, text in product(self.settings(), self.budgets):
            peak = setting.peak_without_eviction_bytes
            allocator, asked = allocators.find(setting.allocator), budget.parse(text, peak)
            allocator.needs_a_piece(asked, f"{setting.trace_file}: a budget of {text}, {asked} bytes,")
            center = asked / peak
            sizes = [max(allocator.granule, round((center + offset) * peak)) for offset in offsets]
            found += [Point(setting, text, size, round(center, 6)) for size in sizes]
        return found


def key(*what: Any) -> str:
    """Names what is asked for and this version of the core: rows of something else must not be mixed in.

    what: settings, points, or whatever JSON can hold.
    """
    from coopsim import __version__
    from coopsim.kernel.jit import SOURCES_HASH
    from coopsim.policies._foreign import fingerprint
    from coopsim.sweep.table import SWEEP_VERSION

    def plain(thing: Any) -> Any:
        if isinstance(thing, Setting):
            return asdict(thing) | {"fingerprint": fingerprint(thing.policy)}
        return asdict(thing)

    text = json.dumps([__version__, SOURCES_HASH, SWEEP_VERSION, *what], default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def load(file: str) -> Trace:
    """A trace file, or a synthetic trace `synth:NAME[:SIZE]`."""
    if file.startswith("synth:"):
        from coopsim.trace.synth import make

        return make(file)
    from coopsim.trace import load as load_file

    return load_file(file)
