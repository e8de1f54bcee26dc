"""Where values belong, by what ops cost a byte and by how much of it a step makes."""

from collections import Counter
from typing import Any

from tests.reference.values import Value

Grade = tuple[int, int, str]
LOW, HIGH = "low", "high"


def grade(value: Value, name: str) -> Grade:
    """Cheaper a byte comes first; within an eighth of an octave the name of the op decides."""
    per_byte, halvings = (value.own_cost + 1) * 2**60 // value.bytes, 0
    while per_byte >= 16:
        per_byte, halvings = per_byte // 2, halvings + 1
    return halvings, per_byte, name


class Homes:
    """Remembers what steps have made, and where values belong in this round: at an address, or at an end of a hole."""

    def __init__(self, budget: int, names: list[str]) -> None:
        self.budget, self.names = budget, names
        self.before: Counter[Grade] = Counter()  # bytes in steps that have ended
        self.now: Counter[Grade] = Counter()  # and in this one
        self.steps = 0
        self.of: dict[Value, Any] = {}

    def home(self, value: Value) -> Any:
        if value not in self.of:
            assert value.producer
            mine = grade(value, self.names[value.producer.number])
            self.of[value] = self.find(value.bytes, mine)
            self.now[mine] += value.bytes
        return self.of[value]

    def find(self, nbytes: int, mine: Grade) -> Any:
        made = self.before or self.now
        total, lower = sum(made.values()), sum(n for g, n in made.items() if g < mine)
        if not self.before or 32 * nbytes > self.budget:
            return HIGH if lower <= 0.1 * total else LOW
        mine_so_far = min(self.steps * self.now[mine], self.before[mine])
        return int(self.budget * (1.0 - (lower + mine_so_far) / total)) // nbytes * nbytes

    def end_step(self) -> None:
        self.steps += bool(self.now)
        self.before += self.now
        self.now.clear()
