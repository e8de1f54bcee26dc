"""What `coopsim phantom run` prints about a job of several ranks."""

import textwrap
from typing import TYPE_CHECKING

from coopsim.base.text import human

if TYPE_CHECKING:
    from coopsim.run import Report


_WIDTH = 96  #: of a line of kinds


def several(ranks: str | None) -> bool:
    """Return whether `--ranks` names more than one."""
    return ranks is not None and not ranks.isdecimal()


def by_kind(report: "Report") -> list[tuple[str, str]]:
    """Return the rows on what the memory at the peak is used for; [] if that is not known."""
    if not any(report.peak_by_kind.values()):
        return []
    kinds = {kind: nbytes for kind, nbytes in report.peak_by_kind.items() if nbytes}
    text = ", ".join(f"{kind.replace('_', ' ')} {human(nbytes)}" for kind, nbytes in kinds.items())
    return [("" if i else "of it", line) for i, line in enumerate(textwrap.wrap(text, _WIDTH))]


def rows(report: "Report") -> list[tuple[str, str]]:
    """Return the rows on which ranks were run, and what each took; [] for a program without ranks."""
    ran = report.ranks
    if not ran:
        return []
    if len(ran) == 1 < report.world_size:
        return [("rank", f"{report.rank} of {report.world_size}, the others imagined; errors of theirs: --ranks all")]
    alone = "" if len(ran) == report.world_size else ", each alone with the others imagined"
    found = [("ranks", f"{len(ran)} of {report.world_size} ran{alone}; below is rank {report.rank}")]
    for one in ran:
        said = "out of memory" if one.outcome == "oom" else f"{human(one.peak_allocated_bytes)} allocated"
        peaks = f"{said}, {human(one.peak_reserved_bytes)} reserved, {human(one.peak_device_bytes)} of the card"
        found.append((f"  rank {one.rank}", peaks))
    return found
