"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table."""
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)]
