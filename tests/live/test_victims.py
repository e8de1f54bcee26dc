"""Which value is evicted: the one with the least cost of making it again, per byte and staleness."""

from tests.conftest import Runner

IMPORT = """
from coopsim.types import Role
from tests.live.made_up import KIB, made, parts
step = parts()
victims = step.context.room.victims
"""


def test_the_cheapest_per_byte_and_staleness_goes(child: Runner) -> None:
    text = """
small, large, dear = made(step, KIB, 10), made(step, 8 * KIB, 10), made(step, 8 * KIB, 1000)
names = {small: "small", large: "large", dear: "dear"}
found = [names[victims.best([])], names[victims.best([large])]]
for _ in range(9): victims.op_begins()
large.use(9)  # just now; the small one has not been used for ten ops
answer([*found, names[victims.best([])], names[victims.oldest([small])], victims.best(list(names))])
"""
    assert child(IMPORT + text) == ["large", "small", "small", "dear", None]


def test_evicted_operands_are_part_of_the_cost(child: Runner) -> None:
    text = """
first = made(step, KIB, 100)
second, other = made(step, KIB, 10, [first]), made(step, KIB, 50)
before = victims.best([first]) is second
step.context.residency.evict((first, 0))
answer([before, victims.best([]) is other])
"""
    assert child(IMPORT + text) == [True, True]


def test_some_are_never_evicted(child: Runner) -> None:
    """Gradients, what the program knows the address of, what is held, and what no call of the step makes."""
    text = """
gradient, pinned, held, root, freed = storages = [made(step, KIB) for _ in range(5)]
step.context.residency.ledger.of_storage(gradient.ref()).role = Role.GRADIENT
pinned.pin()
held.held[0] = held.ref()
del root.makers[0]
from tests.live.made_up import KEPT
KEPT.pop()
answer([victims.best([]) is None, victims.movable([]) == []])
"""
    assert child(IMPORT + text) == [True, True]


def test_roots_and_what_depends_on_them(child: Runner) -> None:
    """A root is what no call makes. Its frontier: values with memory that could not be made again without it."""
    text = """
root, other = made(step, KIB), made(step, KIB)
for one in (root, other): del one.makers[0]
a = made(step, KIB, 1, [root])
b, c = made(step, KIB, 1, [a, other]), made(step, KIB, 1, [other])
names = {root: "root", other: "other", a: "a", b: "b", c: "c"}
named = lambda values: sorted(names[tracked] for tracked, _ in values)
before = named(victims.roots((b, b.version))), named(victims.frontier((root, 0)))
step.context.residency.evict((a, 0))
lost = victims.frontier((root, 0))
victims.end([(root, 0)])
answer([*before, lost, named(victims.hang_on_ends()), sorted(names[tracked] for tracked in victims.prices([]))])
"""
    roots, frontier, lost, hanging, priced = child(IMPORT + text)
    assert (roots, frontier) == (["other", "root"], ["a"])
    assert lost is None  # `a` has to be made from it
    assert hanging == ["a"]
    assert priced == ["c"]  # `b` hangs on the root, which the running op overwrites


def test_what_needs_many_calls_goes_last(child: Runner) -> None:
    """However cheap they are: what they make on the way needs room, too. And it stays where that is only to spare."""
    text = """
chain = [made(step, KIB, 0)]
for _ in range(40): chain.append(made(step, KIB, 0, chain[-1:]))
for one in chain[:-1]: step.context.residency.evict((one, 0))
dear = made(step, KIB, 1000)
answer([victims.best([]) is dear, victims.best([dear]) is chain[-1], victims.best([dear], far=False)])
"""
    assert child(IMPORT + text) == [True, True, None]
