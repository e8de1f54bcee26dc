"""Policies of users in a sweep: what names their rows, and how they get to where a replay runs."""

import hashlib
import importlib.util
import pickle
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from coopsim.base.progress import note
from coopsim.base.types import CoopsimError
from coopsim.simulate import policies
from coopsim.simulate.policies import CHOICES, AnyPolicy, Policy
from coopsim.simulate.policies._reads import Reads

_THIS_RUN = secrets.token_hex(8)  #: part of the names of rows that no other run can know to be the same


def fingerprint(policy: Policy) -> tuple[str, str]:
    """The hash of all that a policy depends on, and what of it cannot be known, in words."""
    if policy.is_own:
        reads = Reads(policy)
        return reads.digest, reads.unknown
    return hashlib.sha256(repr([getattr(policy, choice) for choice in CHOICES]).encode()).hexdigest()[:32], ""


def names_row(name: str, digest: str, unknown: str) -> list[str]:
    """What the name of a row says of the policy."""
    return [name, digest, _THIS_RUN] if unknown else [name, digest]


def packed(policy: Policy) -> bytes:
    """A policy that Python has, for another process. CoopsimError, which says why, if that could not read it."""
    try:
        data = pickle.dumps(policy)
    except Exception as e:
        raise CoopsimError(f"it cannot be sent to another ({str(e).splitlines()[0]})") from None
    main = sys.modules["__main__"]
    for module in {it.__module__ for it in (policy.score, policy.choose, policy.own) if it is not None}:
        if module == "__main__" and not getattr(main, "__file__", None):
            raise CoopsimError("others cannot import what a notebook or a prompt defines; put it into a file")
        if module != "__main__" and importlib.util.find_spec(module) is None:
            raise CoopsimError(f"others cannot import {module}; name it FILE.py:NAME")
    return data


_found: dict[str, Policy] = {}  #: by name, as looking through what is installed takes as long as a small replay


def unpacked(policy: str | Policy | bytes, digest: str) -> Policy | None:
    """The policy of a job, whose fingerprint this is; None if there is no such policy in this process."""
    if isinstance(policy, bytes):
        try:
            found: Policy = pickle.loads(policy)  # noqa: S301  (ours: `packed` made it in the process that sweeps)
        except Exception:
            return None
    elif isinstance(policy, str):
        try:
            if policy not in _found or fingerprint(_found[policy])[0] != digest:
                _found[policy] = policies.find(policy)
        except CoopsimError:  # another machine may lack the file
            return None
        found = _found[policy]
    else:
        found = policy
    return found if fingerprint(found)[0] == digest else None


@contextmanager
def as_found(policy: Policy, name: object) -> Iterator[None]:
    """A replay inside; the next one finds a policy file as this one did, whatever its code has changed.

    CoopsimError if the policy is no file's, as rows would depend on their order.
    """
    with policies.watched(policy) as left:
        yield
    if left.changed or (left.unknown and isinstance(name, str)):
        if not isinstance(name, str):
            raise CoopsimError(
                f"policy {policy.name} has changed {left.changed!r}, which outlives a replay, so rows would depend on "
                "their order; make it an EvictionPolicy, whose state begins in start"
            )
        policies.forget(name)
        _found.pop(name, None)


def note_unknown(of_policies: Mapping[str, str], *, goes_on: bool) -> None:
    """Say whose rows nobody can know to be the same another time, of which a sweep that goes on takes none.

    of_policies: what cannot be known of each.
    """
    for policy, unknown in of_policies.items():
        if unknown:
            told = ", so its replays begin anew" if goes_on else ", so another sweep may find otherwise"
            note(f"policy {policy}: {unknown} cannot be known{told}")


def shown(have_names: Mapping[str, bool]) -> dict[str, str]:
    """What to call each policy in tables. have_names: whether a policy is found by its name, or came from Python."""
    return policies.shown([name for name, has in have_names.items() if has]) | {
        name: name for name, has in have_names.items() if not has
    }


def named(wanted: list[AnyPolicy]) -> list[tuple[str, Policy | None]]:
    """Each policy by its name, several values of a parameter one by one; with the object, of what is no name.

    CoopsimError for one that there is not, or two of one name.
    """
    found: dict[str, Policy | None] = {}
    for it in wanted:
        for name in policies.variants(it) if isinstance(it, str) else [it]:
            policy = policies.find(name)
            given = None if isinstance(name, str) else policy
            called = policy.name if given or ":" in str(name) else str(name)
            if called in found and (given is not None or found[called] is not None) and found[called] != given:
                raise CoopsimError(f"two policies are called {called!r}: names tell their rows apart")
            found[called] = given
    return list(found.items())
