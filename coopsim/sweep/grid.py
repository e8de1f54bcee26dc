"""What to replay: the product of traces, allocators, options and policies, each at many budgets."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from coopsim import budget, policies
from coopsim.allocators import Allocator
from coopsim.options import ReplayOptions
from coopsim.policies import AnyPolicy, Policy
from coopsim.sweep import own
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
    fingerprint: str = ""  #: of a policy of a user's, all that it depends on
    unknown: str = ""  #: what of that cannot be known, in words
    by_chance: bool = False  #: whether the seed matters
    parameters: tuple[tuple[str, bool | float | str], ...] = ()  #: of the policy's class
    given: Policy | None = None  #: the policy, if no name finds it

    def as_dict(self) -> dict[str, Any]:
        """What is asked for, as JSON can hold it: not the policy's code, which rows depend on one by one."""
        left_out = ("fingerprint", "unknown", "by_chance", "parameters", "given")
        return {k: v for k, v in asdict(replace(self, given=None)).items() if k not in left_out}


@dataclass(frozen=True)
class Point:
    """One replay. `budget` is as asked for; `band_center` the memory ratio whose neighbourhood it belongs to."""

    setting: GridSetting
    budget: str
    budget_bytes: int
    band_center: float
    refined: bool = False  #: asked for because its neighbours in a map end differently

    def as_dict(self) -> dict[str, Any]:
        """What is asked for, as JSON can hold it."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def id(self) -> str:
        """Names the replay: points of one id have one row."""
        s = self.setting
        granules = self.budget_bytes // s.allocator.granule
        options = s.options if s.by_chance else replace(s.options, seed=0)
        of_policy = own.names_row(s.policy, s.fingerprint, s.unknown)
        what = [s.trace_hash, *of_policy, asdict(s.allocator), granules, asdict(options)]
        return hashlib.blake2b(json.dumps(what).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Grid:
    """What to sweep. Budgets as in budget.parse_list; each becomes `band` neighbours over `band_width`.

    traces: files, `synth:NAME`, or traces. policies: as of `replay`.
    options: of ReplayOptions, and torch and alloc_conf of cuda-caching; each
    one value or a list.
    """

    traces: Sequence[str | Trace]
    policies: Sequence[AnyPolicy]
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

        wanted = [_about(name, given) for name, given in own.named(list(self.policies))]
        rest, places = products(self.options), memories(self.allocators, self.options)
        found = []
        for (file, trace), allocator in product(self.loaded, places):
            content_hash, peak = trace.content_hash, peak_bytes(trace, allocator.granule)
            for options, policy in product(rest, wanted):
                about = {key: str(trace.header.get(key, "")) for key in ("card", "precision")} | policy
                found.append(
                    GridSetting(
                        trace_file=file,
                        trace_hash=content_hash,
                        allocator=allocator,
                        options=options,
                        peak_without_eviction_bytes=peak,
                        **about,
                    )
                )
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


def _about(name: str, given: Policy | None) -> dict[str, Any]:
    """The fields of a setting that say which policy."""
    policy = given or policies.find(name)
    fingerprint, unknown = own.fingerprint(policy)
    return {
        "policy": name,
        "fingerprint": fingerprint,
        "unknown": unknown,
        "by_chance": own.by_chance(policy),
        "parameters": tuple(policy.own.parameters.items()) if policy.own else (),
        "given": given,
    }


def _named(name: str) -> tuple[str, Trace]:
    trace = load_trace(name)  # raises for what is no name
    return Path(name).name, trace
