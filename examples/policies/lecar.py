"""LeCaR (Vietri et al., HotStorage 2018) for tensors: learns, by regret, whether to evict by LRU or by LFU.

Each victim is remembered with the expert that chose it. When it has to be made again, that expert's weight falls, the
more the fewer evictions ago the mistake was.
"""

import math

import numpy as np

import coopsim


class LeCaR(coopsim.EvictionPolicy):
    """LRU or LFU, whichever was regretted less."""

    learning_rate: float = 0.45
    memory_of: int = 100  # evictions until a mistake counts a 200th
    in_place = "recomputable"

    def start(self, memory):
        self.weights = np.array([0.5, 0.5])
        self.uses = np.zeros(memory.values)
        self.blamed = {}  # value: which expert chose it, at which eviction
        self.evictions = 0

    def used(self, value, now):
        self.uses[value] += 1

    def recomputed(self, value):
        if value in self.blamed:
            expert, then = self.blamed.pop(value)
            regret = 0.005 ** ((self.evictions - then) / self.memory_of)
            self.weights[expert] *= math.exp(-self.learning_rate * regret)
            self.weights /= self.weights.sum()

    def choose(self, memory, need):
        table = memory.table()
        candidates, last_use = table.value[table.can_go], table.last_use[table.can_go]
        if not len(candidates):
            return []
        expert = int(self.rng.random() >= self.weights[0])
        victim = int(candidates[np.argmin(self.uses[candidates] if expert else last_use)])
        self.evictions += 1
        self.blamed[victim] = expert, self.evictions
        return [victim]
