"""Policies: what to evict, where to place, how to treat in-place ops. One file each, found by being in this folder.

A policy is a point in a small space of choices (types.py names their values). A file defines `POLICY`; nothing else
is edited.
"""

import importlib
import pkgutil
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from coopsim.errors import unknown
from coopsim.types import Cost, Dead, Divisor, InPlace, Pinning, Placement, Recency, Release, Search


@dataclass(frozen=True)
class Policy:
    """One policy. score = cost / recency / divisor; the least is evicted first."""

    name: str
    summary: str
    source: str
    cost: Cost = Cost.SET
    divisor: Divisor = Divisor.NOTHING
    recency: Recency = Recency.STALENESS
    search: Search = Search.GREEDY
    placement: Placement = Placement.LOW
    in_place: InPlace = InPlace.COPY
    release: Release = Release.EAGER
    dead: Dead = Dead.RELEASE
    pinning: Pinning = Pinning.SOUND
    aliases: tuple[str, ...] = ()


CHOICES: dict[str, type[StrEnum]] = {
    "cost": Cost,
    "divisor": Divisor,
    "recency": Recency,
    "search": Search,
    "placement": Placement,
    "in_place": InPlace,
    "release": Release,
    "dead": Dead,
    "pinning": Pinning,
}


def _all() -> dict[str, Policy]:
    found = {}
    for module in pkgutil.iter_modules(__path__):
        policy: Policy = importlib.import_module(f"{__name__}.{module.name}").POLICY
        found[policy.name] = policy
    return dict(sorted(found.items()))


def names() -> list[str]:
    """Names for `--policy`."""
    return list(_all())


def find(spec: str) -> Policy:
    """The policy `NAME`, or with choices changed `NAME:choice=value,…`; CoopsimError with near matches if unknown.

    >>> find("coop:placement=low").placement
    <Placement.LOW: 'low'>
    """
    name, _, changes = spec.partition(":")
    policies = _all()
    by_alias = {alias: p for p in policies.values() for alias in p.aliases}
    policy = policies.get(name) or by_alias.get(name)
    if policy is None:
        raise unknown("policy", name, [*policies, *by_alias])
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


def split(text: str) -> list[str]:
    """Policies in a comma-separated list; a piece with `=` alone goes on with the one before.

    >>> split("dte,coop:placement=low,in_place=copy,lru")
    ['dte', 'coop:placement=low,in_place=copy', 'lru']
    """
    specs: list[str] = []
    for piece in text.split(","):
        if specs and "=" in piece and ":" not in piece:
            specs[-1] += f",{piece}"
        else:
            specs.append(piece)
    return specs


def choices(policy: Policy) -> dict[str, str]:
    """The point in the space of choices, as words."""
    return {f.name: str(getattr(policy, f.name)) for f in fields(policy) if f.name in CHOICES}
