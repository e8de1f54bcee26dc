"""The judge of plans: does each item lie where it may, and alone? It shares no code with the planner."""

from collections.abc import Sequence


def plan_faults(
    sizes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    alignments: Sequence[int],
    offsets: Sequence[int],
    height: int,
) -> list[str]:
    """What is wrong with a plan: an empty list says that it is sound.

    Item i takes the bytes from offsets[i] to before offsets[i] + sizes[i], from time starts[i] until before ends[i].
    It must begin at a multiple of alignments[i], lie between 0 and `height`, and share no byte with another item that
    is alive at the same time.
    """
    if not len(sizes) == len(starts) == len(ends) == len(alignments) == len(offsets):
        return [f"{len(offsets)} offsets for {len(sizes)} items"]
    faults = []
    for i, (size, alignment, offset) in enumerate(zip(sizes, alignments, offsets, strict=True)):
        if offset < 0 or offset + size > height:
            faults.append(f"item {i} at {offset} + {size} is outside of 0 to {height}")
        if offset % alignment:
            faults.append(f"item {i} at {offset} is not aligned to {alignment}")
    events = [(end, 0, i) for i, end in enumerate(ends)] + [(start, 1, i) for i, start in enumerate(starts)]
    alive: set[int] = set()
    for _, born, i in sorted(events):
        if not born:
            alive.discard(i)
            continue
        meets = [j for j in sorted(alive) if offsets[j] < offsets[i] + sizes[i] and offsets[i] < offsets[j] + sizes[j]]
        faults += [f"items {min(i, j)} and {max(i, j)} overlap while both are alive" for j in meets]
        alive.add(i)
    return faults
