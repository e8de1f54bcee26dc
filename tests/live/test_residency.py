"""Where a value is: on the device, on the host, or nowhere; and what moves it from one to the other."""

from tests.conftest import Runner

IMPORT = """
import torch
from coopsim.live.residency import Where
from tests.live.made_up import KIB, made, parts
step = parts()
residency = step.context.residency
where = lambda cell: residency.where((cell, cell.version)).name
def filled(nbytes=KIB, fill=7):
    cell = made(step, nbytes)
    cell.ref().fill_(fill)
    return cell
def reads(cell): return sorted(set(cell.ref().tolist()))
"""


def test_a_value_goes_to_the_host_and_back(child: Runner) -> None:
    """By a plan: it is on the device until its copy is made, and not again before that has arrived."""
    text = """
assert not step.context.residency._area.reserve(4 * KIB)
cell = filled()
found = []
residency.offload((cell, 0), KIB); found.append(where(cell))
residency.leave((cell, 0)); found.append(where(cell))
residency.fetch((cell, 0), step.context.values.allocate); found.append(where(cell))
residency.arrive((cell, 0)); found.append(where(cell))
answer([found, reads(cell), residency.copies.offloads, residency.evictions])
"""
    assert child(IMPORT + text) == [["DEVICE", "HOST", "HOST", "DEVICE"], [7], 1, 1]


def test_what_is_sent_comes_back_by_one_call(child: Runner) -> None:
    text = """
cell = filled()
live = residency.ledger.live_bytes
sent = residency.send(cell)
found = [sent, where(cell), live - residency.ledger.live_bytes, residency.sent_bytes]
step.context.values.bring([(cell, 0)])
back = residency.sent_bytes, residency.ledger.live_bytes - live, residency.recomputes
answer([found, where(cell), reads(cell), *back])
"""
    assert child(IMPORT + text) == [[True, "HOST", 1024, 1024], "DEVICE", [7], 0, 0, 0]


def test_what_is_evicted_is_nowhere_and_what_is_held_is_not(child: Runner) -> None:
    text = """
cell, held = filled(), filled()
held.held[0] = torch.UntypedStorage(KIB)
residency.evict((cell, 0))
answer([where(cell), residency.evicted(cell.ref()) is cell, where(held)])
"""
    assert child(IMPORT + text) == ["NOWHERE", True, "DEVICE"]


def test_what_has_to_stay_stays(child: Runner) -> None:
    """A storage whose address is known, and one that a copy may still read."""
    text = """
assert not step.context.residency._area.reserve(4 * KIB)
pinned, copied, older = filled(), filled(), filled()
pinned.pin()
residency.offload((copied, 0), 0)
older.change()
for cell in (pinned, copied): residency.evict((cell, 0))
residency.evict((older, 0))  # a version that nobody has
answer([where(pinned), residency.send(pinned), where(copied), where(older)])
"""
    assert child(IMPORT + text) == ["DEVICE", False, "DEVICE", "DEVICE"]


def test_a_plan_finds_what_the_step_before_has_left(child: Runner) -> None:
    """In other places than the plan's, which two values even have to exchange, and one that is on the device yet."""
    text = """
from coopsim.live.residency import Residency
area, sent = residency._area, residency._sent
assert not area.reserve(4 * KIB)
one, other, here = filled(fill=1), filled(fill=2), filled(fill=3)
for at, cell in enumerate((one, other)):
    cell.number = at
    residency.offload((cell, 0), at * KIB); residency.leave((cell, 0))
residency.keep([one, other])
residency.end(goes_on=True)
after = Residency("cpu", residency.ledger, area, sent)
found = {cell.ref()._cdata: cell for cell in after.sent}
cells = [found[cell.ref()._cdata] for cell in (one, other)] + [here]
for number, cell in enumerate(cells): cell.number = number
after.gather(dict(zip(cells, (KIB, 0, 2 * KIB))))
gone = [cell.gone for cell in cells]
for cell in cells:
    after.fetch((cell, 0), step.context.values.allocate); after.arrive((cell, 0))
answer([len(found), gone, [reads(cell) for cell in cells]])
"""
    assert child(IMPORT + text) == [2, [True] * 3, [[1], [2], [3]]]
