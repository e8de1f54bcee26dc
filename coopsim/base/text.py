"""Figures and tables as plain text."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_NO_FIGURE = ("-", "none", "never fits", "largest fails")  #: what stands in a column of figures for one
_PLAIN = ("allocator", "card", "precision", "file", "hash", "optimizer", "attention")  #: known by their value alone


def human(nbytes: float) -> str:
    """Bytes for people: 1.25 GiB."""
    if abs(nbytes) < 1024:
        return f"{nbytes:.0f} B"
    power = min(int(math.log2(abs(nbytes)) // 10), 4)
    return f"{nbytes / 1024**power:.4g} {['KiB', 'MiB', 'GiB', 'TiB'][power - 1]}"


def count(n: int, noun: str, plural: str = "s") -> str:
    """A number with its noun.

    >>> count(1, "step"), count(2, "batch", "es")
    ('1 step', '2 batches')
    """
    return f"{n} {noun}{'' if n == 1 else plural}"


def overhead(cost: float) -> str:
    """What a step costs, in steps without eviction, as overhead in %: 1.106 is 10.6 %."""
    return f"{100 * (cost - 1):.1f} %"


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Names and values under a title, for a notebook."""
    body = "".join(f"<tr><th style='text-align:left'>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in rows)
    return f"<table><caption>{escape(title)}</caption>{body}</table>"


def listed(rows: Iterable[tuple[str, str]], width: int = 0) -> str:
    """Names and values, a line each; the values begin at column `width`, 0: two blanks after the longest name."""
    rows = list(rows)
    width = width or max((len(name) for name, _ in rows), default=0) + 2
    return "\n".join(f"{name:<{width}}{value}" for name, value in rows)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Plain columns under a line: figures to the right, words to the left."""
    cells = [[str(c) for c in row] for row in rows]
    columns = list(zip(header, *cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    figures = [all(c[:1].isdigit() or c in _NO_FIGURE for c in column[1:]) for column in columns]

    def line(row: Sequence[str]) -> str:
        parts = zip(row, widths, figures, strict=True)
        return "  ".join(c.rjust(w) if figure else c.ljust(w) for c, w, figure in parts).rstrip()

    return "\n".join([line(list(header)), "  ".join("-" * w for w in widths), *map(line, cells)])


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
