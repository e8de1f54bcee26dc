"""Labels that differ: of traces that have one name, and of what varies in a table, in words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from coopsim.base.text import human

_PLAIN = ("allocator", "card", "precision", "file", "hash", "optimizer", "attention")  #: known by their value alone


def said(name: str, value: Any) -> str:
    """A value with the name of what it is of, as in legends: `steps 2`; a card, a file, an allocator by itself.

    Two values never read alike.

    >>> said("host_memory_bytes", 1 << 30), said("card", "a100-80gb"), said("alloc_conf", "")
    ('host memory 1 GiB', 'a100-80gb', 'alloc_conf default')
    """
    if value is None or str(value) in ("nan", "<NA>"):
        return ""
    if name.endswith("_bytes"):
        return f"{name.removesuffix('_bytes').replace('_', ' ')} {_bytes(int(value))}"
    if isinstance(value, float):
        value = f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return f"{value}" if name in _PLAIN else f"{name} {'default' if value == '' else value}"


def _bytes(n: int) -> str:
    number, unit = human(n).split()
    return human(n) if float(number) * 1024 ** ("B", "KiB", "MiB", "GiB", "TiB").index(unit) == n else f"{n} B"


def apart(names: Sequence[str], facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Labels that differ, from names of which some are alike: these are followed by what differs, in brackets.

    facts: of each, by name, those to prefer first; the last one must differ.

    >>> apart(["gpt", "bert", "gpt"], [{"batch": 16}, {"batch": 16}, {"batch": 24}])
    ['gpt (batch 16)', 'bert', 'gpt (batch 24)']
    """
    found = list(names)
    for name, n in Counter(names).items():
        same = [k for k, other in enumerate(names) if other == name]
        told: dict[int, tuple[str, ...]] = dict.fromkeys(same, ())
        for fact in facts[same[0]]:
            more = {k: (*told[k], said(fact, facts[k].get(fact))) for k in same}
            if len(set(more.values())) > len(set(told.values())):
                told = more
            if len(set(told.values())) == n:
                break
        for k in same if n > 1 else ():
            words = ", ".join(filter(None, told[k]))
            found[k] = f"{name} ({words})" if words else name
    return found
