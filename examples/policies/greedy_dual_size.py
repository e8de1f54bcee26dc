"""GreedyDual-Size (Cao and Irani, USITS 1997) for tensors: what is cheap to make again for its size goes first.

H of a value, when an op reads or makes it: inflation + cost / bytes ** alpha. The least H goes, and its H becomes the
inflation, so that what is not used falls behind.
"""

import numpy as np

import coopsim


class Gds(coopsim.EvictionPolicy):
    """GreedyDual-Size with an exponent."""

    alpha: float = 1.0
    in_place = "recomputable"

    def start(self, memory):
        self.inflation = 0.0
        self.worth = np.zeros(memory.values)

    def used(self, value, now):
        self.worth[value] = self.inflation + self.memory.cost(value) / self.memory.bytes(value) ** self.alpha

    def evicted(self, value):
        self.inflation = self.worth[value]

    def choose(self, memory, need):
        table = memory.table()
        candidates = table.value[table.can_go]
        return candidates[[np.argmin(self.worth[candidates])]] if len(candidates) else []
