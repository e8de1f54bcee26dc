"""A policy that may do whatever a policy can, by its parameters: for random tests, on processes that import it."""

import numpy as np

import coopsim


class Anything(coopsim.EvictionPolicy):
    """Learns from everything that it is told, decides by chance, in Python or by a table of its own."""

    explore: float = 0.5
    most: int = 2
    by: str = "regret"
    heard = {"events": 0}  # noqa: RUF012  (each replay has its own)

    def start(self, memory):
        self.regret = np.zeros(memory.values)
        self.chosen = {}

    def step(self, step):
        self.heard["events"] += step

    def allocated(self, value):
        self.heard["events"] += 1

    def used(self, value, now):
        self.regret[value] += 1 / (1 + now)

    def dropped(self, value):
        self.chosen.pop(value, None)

    def evicted(self, value):
        self.chosen[value] = self.memory.clock

    def recomputed(self, value):
        self.regret[value] += 1 + self.memory.clock - self.chosen.pop(value, 0)

    def choose(self, memory, need):
        table = memory.table()
        going = table.value[table.can_go]
        if self.rng.random() < self.explore:
            return self.rng.permutation(going)[: self.most]
        keys = {
            "regret": self.regret[going],
            "score": table.score[table.can_go],
            "events": (going * 7919 + self.heard["events"]) % 13,
            "next use": np.array([-(memory.next_use(v) or 1 << 40) for v in going.tolist()]),
        }
        return going[np.argsort(keys[self.by], kind="stable")[: self.most]]
