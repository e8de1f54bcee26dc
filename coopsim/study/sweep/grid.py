"""What to replay: the product of traces, allocators, options and policies, each at many budgets."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from coopsim.base import budget
from coopsim.base.types import CoopsimError
from coopsim.cards.link import Link
from coopsim.simulate import policies
from coopsim.simulate.allocators import Allocator
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.policies import AnyPolicy, Policy
from coopsim.study.sweep import own
from coopsim.study.sweep.options import memories, of_policy, products
from coopsim.trace import Trace
from coopsim.trace.named import load_all


@dataclass(frozen=True)
class GridSetting:
    """All that a replay depends on but its budget."""

    trace: str  #: its label, which no other trace of the grid has
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
    parameters: tuple[tuple[str, bool | float | str], ...] = ()  #: of the policy's class
    given: Policy | None = None  #: the policy, if no name finds it

    def as_dict(self) -> dict[str, Any]:
        """What is asked for, as JSON can hold it: not the policy's code, which rows depend on one by one."""
        left_out = ("fingerprint", "unknown", "parameters", "given")
        return {k: v for k, v in asdict(replace(self, given=None)).items() if k not in left_out}

    @property
    def trace_id(self) -> str:
        """Names the trace for workers: its rows, and its card, on which the link to the host depends."""
        return f"{self.card} {self.trace_hash}"


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
        of_policy = own.names_row(s.policy, s.fingerprint, s.unknown)
        what = [s.trace_id, *of_policy, asdict(s.allocator), granules, asdict(s.options)]
        return hashlib.blake2b(json.dumps(what).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Grid:
    """What to sweep. Budgets as in budget.parse_list; each becomes `band` neighbours over `band_width`.

    traces: files, `synth:NAME`, `LABEL=` before either, or traces. policies: as of `replay`. options: of ReplayOptions,
    and torch and alloc_conf of cuda-caching; each one value or a list.
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
        """The traces, as of `load_all`."""
        return load_all(self.traces)

    @cached_property
    def by_hash(self) -> dict[str, Trace]:
        """What workers need: the traces, by GridSetting.trace_id."""
        return {f"{_card(trace)} {trace.content_hash}": trace for _, trace in self.loaded}

    def settings(self) -> list[GridSetting]:
        """All settings, in a defined order. CoopsimError for an unknown name, bad option or trace."""
        from coopsim.trace.measure import peak_bytes

        wanted = [_about(name, given) for name, given in own.named(list(self.policies))]
        rest, places = products(self.options), memories(self.allocators, self.options)
        found = []
        for (file, trace), allocator in product(self.loaded, places):
            content_hash, peak = trace.content_hash, peak_bytes(trace, allocator.granule)
            for options, (policy, about) in product(rest, wanted):
                found.append(
                    GridSetting(
                        trace=trace.label,
                        trace_file=file,
                        trace_hash=content_hash,
                        allocator=allocator,
                        options=of_policy(options, policy),
                        peak_without_eviction_bytes=peak,
                        card=_card(trace),
                        precision=trace.precision,
                        **about,
                    )
                )
        settings = list(dict.fromkeys(found))
        _check_apart(settings)
        return settings

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


def _about(name: str, given: Policy | None) -> tuple[Policy, dict[str, Any]]:
    """A policy, and the fields of a setting that say which."""
    policy = given or policies.find(name)
    fingerprint, unknown = own.fingerprint(policy)
    return policy, {
        "policy": name,
        "fingerprint": fingerprint,
        "unknown": unknown,
        "parameters": tuple(policy.own.parameters.items()) if policy.own else (),
        "given": given,
    }


def _card(trace: Trace) -> str:
    return str(trace.header.get("card", ""))


def _check_apart(settings: Sequence[GridSetting]) -> None:
    """CoopsimError if two of them look alike in a table, which knows links and allocators of one's own by name."""
    seen: set[tuple[Any, ...]] = set()
    for s in settings:
        of_allocator = (getattr(s.allocator, name, "") for name in ("name", "torch", "conf", "driver"))
        options = (value.name if isinstance(value, Link) else value for value in vars(s.options).values())
        look = (s.trace, s.policy, *of_allocator, *options)
        if look in seen:
            raise CoopsimError(
                f"two settings of {s.trace} under {s.policy} look alike in a table ({', '.join(map(str, look[2:]))}): "
                "give links and allocators of your own different names"
            )
        seen.add(look)
