"""The floor: any value that can go, with a probability that is proportional to its bytes to a power."""

import coopsim


class ByChance(coopsim.EvictionPolicy):
    """A random victim, large ones sooner."""

    power: float = 1.0
    in_place = "recomputable"

    def choose(self, memory, need):
        table = memory.table()
        candidates = table.value[table.can_go]
        if not len(candidates):
            return []
        chances = table.bytes[table.can_go] ** self.power
        return self.rng.choice(candidates, 1, p=chances / chances.sum())
