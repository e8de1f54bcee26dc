"""Policies: what to evict, where to place, how to treat in-place ops. One file each, found by being there.

Found are the files of this folder, those of the folders that $COOPSIM_POLICIES lists, and what installed packages
offer under the entry point group `coopsim.policies`; a policy in any other file goes by `path/to/file.py:NAME`
(docs/extend.md).

A policy is a point in a small space of choices (types.py names their values). A file defines `POLICY`; nothing else
is edited.
"""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path

from coopsim.errors import unknown
from coopsim.policies import _foreign
from coopsim.policies._space import CHOICES, LEARNS, Policy
from coopsim.types import CoopsimError

__all__ = ["CHOICES", "LEARNS", "Policy", "choices", "find", "names", "shown", "split"]


def _all() -> dict[str, Policy]:
    found: dict[str, Policy] = {}
    for policy, where in (*_built_in(), *_foreign.in_folders(), *_foreign.in_packages()):
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


def find(spec: str) -> Policy:
    """The policy `NAME` or `FILE.py:NAME`, with `:choice=value,…` for changes; CoopsimError if there is none.

    >>> find("coop:placement=low").placement
    <Placement.LOW: 'low'>
    """
    from coopsim.errors import named

    named("policy", spec)
    if ".py:" in spec or spec.endswith(".py"):
        file, _, rest = spec.partition(".py")
        name, _, changes = rest.removeprefix(":").partition(":")
        policy = replace(_foreign.in_file(Path(f"{file}.py"), name), name=spec)
    else:
        name, _, changes = spec.partition(":")
        policy = _named(name)
    if not changes:
        return policy
    changed: dict[str, object] = {}
    for change in changes.split(","):
        choice, _, value = change.partition("=")
        if choice not in CHOICES:
            raise unknown("choice", choice, CHOICES, hint=f" (in policy {spec!r})")
        if value not in list(CHOICES[choice]):
            raise unknown(choice, value, [str(v) for v in CHOICES[choice]], hint=f" (in policy {spec!r})")
        changed[choice] = CHOICES[choice](value)
    return replace(policy, name=spec, **changed)  # type: ignore[arg-type]


def shown(specs: Iterable[str]) -> dict[str, str]:
    """What to call each policy in tables and pictures: one of a file by its own name, if no other is called that.

    >>> shown(["coop", "coop:placement=low"])
    {'coop': 'coop', 'coop:placement=low': 'coop:placement=low'}
    """
    short = {spec: spec for spec in specs}
    for spec in short:
        file, is_file, rest = spec.partition(".py")
        if is_file:
            name, _, changes = rest.removeprefix(":").partition(":")
            own = _foreign.in_file(Path(f"{file}.py"), name).name
            short[spec] = f"{own}:{changes}" if changes else own
    known = set(names()) if any(spec != name for spec, name in short.items()) else set()
    called = Counter(short.values())
    return {
        spec: name if called[name] == 1 and not (name != spec and name.partition(":")[0] in known) else spec
        for spec, name in short.items()
    }


def _named(name: str) -> Policy:
    policies = _all()
    by_alias = {alias: p for p in policies.values() for alias in p.aliases}
    policy = policies.get(name) or by_alias.get(name)
    if policy is None:
        raise unknown("policy", name, [*policies, *by_alias])
    return policy


def split(text: str) -> list[str]:
    """Policies in a comma-separated list; a part with `=` alone goes on with the one before.

    >>> split("dte,coop:placement=low,in_place=copy,lru")
    ['dte', 'coop:placement=low,in_place=copy', 'lru']
    """
    specs: list[str] = []
    for part in text.split(","):
        if specs and "=" in part and ":" not in part:
            specs[-1] += f",{part}"
        else:
            specs.append(part)
    return specs


def choices(policy: Policy) -> dict[str, str]:
    """The point in the space of choices, as words; those of offload only if the policy does, which few do."""
    left_out = () if policy.offloads else ("lose", "offload_state")
    return {
        f.name: str(getattr(policy, f.name)) for f in fields(policy) if f.name in CHOICES and f.name not in left_out
    }
