"""Steps played on the simulated allocator: segments lie where the phantom, which recorded them, and a card put them."""

import numpy as np

from coopsim.run.longrun.play import play
from coopsim.run.longrun.sections import Template

MIB = 1 << 20


def test_equal_holes_are_chosen_by_a_cards_addresses() -> None:
    """Of two holes of 40 MiB, up to 2.11, the one in the later segment: only the other segment could be given back."""
    what = np.array([0, 1, 0, 2, 1, 3, 4])
    takes = np.array([True, True, False, True, False, True, True])
    sizes = np.array([64, 40, 24, 40, 50]) * MIB
    section = Template(takes, what, sizes, np.zeros(5, np.int64), (), np.array([2, 3, 4]))
    played = {torch: play([[section]], torch, "", 120 * MIB) for torch in ("2.11.0", "2.12.0")}
    assert [played[torch].failed for torch in played] == [True, False]
    assert played["2.11.0"].requested == 50 * MIB
