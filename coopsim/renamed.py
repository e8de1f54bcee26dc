"""Names of the release before: understood until the next one, each with a line on stderr that says the new name."""

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

KEYS = {  #: of JSON, of the columns of tables and of files of a grid
    "decide_by": "cost_model",
    "scatter": "external_fragmentation",
    "max_pieces": "max_blocks",
    "fixed_bytes": "non_evictable_bytes",
}
POLICIES = {
    "coop-no-in-place": "coop:in_place=copy",
    "coop-no-layout": "coop:search=greedy,divisor=hole",
    "coop-no-partition": "coop:placement=low",
}
CHOICES = {("placement", "homes"): "preferred"}  #: of a policy, and what it may be


def warn(old: str, new: str) -> None:
    """Say that a name is an old one."""
    print(f"note: {old} is called {new} now; the old name goes with the next release", file=sys.stderr, flush=True)


@cache
def policy(name: str) -> str:
    """What a policy of that name is called now; says so once."""
    return _new(name, POLICIES.get(name, name))


@cache
def choice(field: str, value: str) -> str:
    """What a choice of a policy is called now; says so once."""
    now = CHOICES.get((field, value), value)
    _new(f"{field}={value}", f"{field}={now}")
    return now


def _new(old: str, new: str) -> str:
    if old != new:
        warn(old, new)
    return new


def warn_of_keys(keys: Mapping[str, str] = KEYS) -> None:
    """Say which keys of JSON are old ones, and their new names."""
    now = ", ".join(f"{old} is {new} now" for old, new in keys.items())
    print(f"note: in --json, {now}; old names go with the next release", file=sys.stderr, flush=True)


def with_old_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same with what was renamed under its old name, too, also in an object inside."""
    whole = {key: with_old_keys(value) if isinstance(value, Mapping) else value for key, value in row.items()}
    return whole | {old: whole[new] for old, new in KEYS.items() if new in whole}


def with_new_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same with old names renamed; for what an earlier release has written."""
    return {KEYS.get(key, key): value for key, value in row.items()}
