"""Policies: what to evict, where to place, how to treat in-place ops. One file each, found by being there.

Found are the files of this folder, those of the folders that $COOPSIM_POLICIES lists, and what installed packages
offer under the entry point group `coopsim.policies`; a policy in any other file goes by `path/to/file.py:NAME`
(docs/extend.md).

A policy is a point in a small space of choices (types.py names their values), or a class of a user's
(`EvictionPolicy`). A file defines `POLICY`; nothing else is edited.
"""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from coopsim.base.errors import unknown
from coopsim.base.types import CoopsimError
from coopsim.simulate.policies import _foreign
from coopsim.simulate.policies._compiled import compiled
from coopsim.simulate.policies._eviction_policy import EvictionPolicy, kinds_of, read, text_of
from coopsim.simulate.policies._reads import Reads
from coopsim.simulate.policies._space import CHOICES, LEARNS, Policy

__all__ = [
    "CHOICES",
    "LEARNS",
    "AnyPolicy",
    "EvictionPolicy",
    "Policy",
    "choices",
    "compiled",
    "find",
    "forget",
    "names",
    "shown",
    "split",
    "variants",
]


AnyPolicy = str | Policy | EvictionPolicy | type[EvictionPolicy]  #: what stands for a policy


def _all() -> dict[str, Policy]:
    found: dict[str, Policy] = {}
    for found_there, where in (*_built_in(), *_foreign.in_folders(), *_foreign.in_packages()):
        policy = find(found_there)
        if policy.name in found:
            raise CoopsimError(f"{where}: there is already a policy {policy.name!r}; give it another name")
        found[policy.name] = policy
    return dict(sorted(found.items()))


def _built_in() -> Iterator[tuple[Policy, str]]:
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            yield importlib.import_module(f"{__name__}.{module.name}").POLICY, module.name


def names() -> list[str]:
    """Names for `--policy`."""
    return list(_all())


def find(what: AnyPolicy) -> Policy:
    """The policy `NAME` or `FILE.py:NAME`, with `:name=value,…` for changes, or the one that is given.

    What can be changed are its choices, and the parameters of a class. CoopsimError if there is none.

    >>> find("coop:placement=low").placement
    <Placement.LOW: 'low'>
    """
    if isinstance(what, Policy):
        return what
    if isinstance(what, EvictionPolicy):
        return what.policy()
    if isinstance(what, type) and issubclass(what, EvictionPolicy):
        return what().policy()
    if not isinstance(what, str):
        raise CoopsimError(f"policy {what!r:.60} is no name, Policy or EvictionPolicy")
    name, changes = _parts(what)
    file, is_file, rest = name.partition(".py")
    found = _foreign.in_file(Path(f"{file}.py"), rest.removeprefix(":")) if is_file else _named(name)
    policy, said = _changed(found, changes, what)
    return replace(policy, name=f"{name}:{said}" if said else name) if is_file or said else policy


def _parts(spec: str) -> tuple[str, str]:
    """Name or FILE.py:NAME, and changes."""
    file, is_file, rest = spec.partition(".py") if ".py:" in spec or spec.endswith(".py") else ("", "", "")
    if not is_file:
        name, _, changes = spec.partition(":")
        return name, changes
    name, _, changes = rest.removeprefix(":").partition(":")
    return f"{file}.py:{name}" if name else f"{file}.py", changes


def _changed(found: "Policy | EvictionPolicy | type[EvictionPolicy]", changes: str, spec: str) -> tuple[Policy, str]:
    """The policy with other choices and parameters, and these in one spelling (0.5 and .5 are the same).

    CoopsimError for one that there is not, or that is given twice.
    """
    kind: Any = found if isinstance(found, type) else type(found)
    known: dict[str, Any] = dict(kinds_of(kind)) if kind is not Policy else {}
    given = dict(found.given) if isinstance(found, EvictionPolicy) else {}
    changed: dict[str, object] = {}
    spelt: dict[str, str] = {}
    for change in filter(None, changes.split(",")):
        name, _, value = change.partition("=")
        if name in spelt:
            raise CoopsimError(f"policy {spec!r}: {name} is given twice")
        spelt[name] = value
        if "|" in value:
            raise CoopsimError(f"policy {spec!r}: {change} is several values; a sweep takes them, a replay one")
        if name in known:
            given[name] = read(kind, name, value)
            spelt[name] = text_of(given[name])
        elif name not in CHOICES:
            raise unknown("parameter" if known else "choice", name, known or CHOICES, hint=f" (in policy {spec!r})")
        elif value not in list(CHOICES[name]):
            raise unknown(name, value, [str(v) for v in CHOICES[name]], hint=f" (in policy {spec!r})")
        else:
            changed[name] = CHOICES[name](value)
    policy: Policy = found if isinstance(found, Policy) else kind(**given).policy()
    said = ",".join(f"{name}={value}" for name, value in spelt.items())
    return replace(policy, **changed) if changed else policy, said  # type: ignore[arg-type]


def forget(name: str) -> None:
    """Execute the file of a policy anew when it is next asked for: its code has changed what it reads."""
    file, is_file, _ = name.partition(".py")
    _foreign.forget(Path(f"{file}.py") if is_file else None)


@dataclass
class AfterReplay:
    """What a replay leaves to the next one of its policy: the name of what the policy's code has changed, if any.

    unknown: what its code reads that cannot be known, in words, so that the next may differ for all that one can tell.
    """

    changed: str = ""
    unknown: str = ""


@contextmanager
def watched(policy: Policy) -> Iterator[AfterReplay]:
    """A replay inside. Gives what it leaves, known afterwards."""
    left = AfterReplay()
    before = Reads(policy) if policy.is_own else None
    yield left
    if before:
        after = Reads(policy)
        left.changed, left.unknown = after.changed_since(before), after.unknown


def variants(spec: str) -> list[str]:
    """A name with several values of a choice or a parameter, as one name for each combination.

    >>> variants("coop:placement=low|two_ended")
    ['coop:placement=low', 'coop:placement=two_ended']
    """
    if "|" not in spec:
        return [spec]
    name, changes = _parts(spec)
    several = [
        [f"{key}={value}" for value in values.split("|")]
        for key, _, values in (change.partition("=") for change in changes.split(","))
    ]
    return [f"{name}:{','.join(combination)}" for combination in product(*several)]


def shown(specs: Iterable[str]) -> dict[str, str]:
    """What to call each policy in tables and pictures: one of a file by its own name, if no other is called that.

    >>> shown(["coop", "coop:placement=low"])
    {'coop': 'coop', 'coop:placement=low': 'coop:placement=low'}
    """
    short = {spec: spec for spec in specs}
    for spec in short:
        name, changes = _parts(spec)
        if ".py" in name:
            file, _, rest = name.partition(".py")
            found = _foreign.in_file(Path(f"{file}.py"), rest.removeprefix(":"))
            own = found.name or found.__name__ if isinstance(found, type) else find(found).name
            short[spec] = f"{own}:{changes}" if changes else own
    known = set(names()) if any(spec != name for spec, name in short.items()) else set()
    called = Counter(short.values())
    return {
        spec: name if called[name] == 1 and not (name != spec and name.partition(":")[0] in known) else spec
        for spec, name in short.items()
    }


def _named(name: str) -> "Policy | EvictionPolicy":
    policies = _all()
    by_alias = {alias: p for p in policies.values() for alias in p.aliases}
    policy = policies.get(name) or by_alias.get(name)
    if policy is None:
        raise unknown("policy", name, [*policies, *by_alias])
    return policy.own or policy


def split(text: str) -> list[str]:
    """Policies in a comma-separated list; a part with `=` alone goes on with the one before, `a|b` makes several.

    >>> split("dte,coop:placement=low,in_place=copy,lru")
    ['dte', 'coop:placement=low,in_place=copy', 'lru']
    """
    specs: list[str] = []
    for part in text.split(","):
        if specs and "=" in part and ":" not in part:
            specs[-1] += f",{part}"
        else:
            specs.append(part)
    return [name for spec in specs for name in variants(spec)]


def choices(policy: Policy) -> dict[str, str]:
    """The point in the space of choices, as words; those of offload only if the policy does, which few do."""
    left_out = () if policy.offloads else ("lose", "offload_state")
    return {
        f.name: str(getattr(policy, f.name)) for f in fields(policy) if f.name in CHOICES and f.name not in left_out
    }
