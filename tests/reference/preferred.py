"""Where values belong, by what losing them costs per byte and by how much of it searches pass."""

from collections import defaultdict

from tests.reference.search import CanGo
from tests.reference.values import Value

CostClass = tuple[int, int, str]


def cost_class(value: Value, name: str) -> CostClass:
    """Cheaper per byte comes first; within an eighth of an octave the name of the op decides."""
    per_byte, halvings = (value.own_cost + 1) * 2**60 // value.bytes, 0
    while per_byte >= 16:
        per_byte, halvings = per_byte // 2, halvings + 1
    return halvings, per_byte, name


class Preferred:
    """Remembers what searches have passed, and since the last step where each grade is at home."""

    def __init__(self, budget: int, names: list[str]) -> None:
        self.budget, self.names = budget, names
        self.passed: dict[CostClass, float] = defaultdict(float)  # bytes
        self.large = 0.0  # bytes of values without a preferred address
        self.losable: dict[CostClass, float] = defaultdict(float)  # bytes that could be evicted
        self.loss: dict[CostClass, float] = defaultdict(float)  # and what losing them would have cost
        self.of: dict[CostClass, float] = {}
        self.few = False

    def cost_class(self, value: Value) -> CostClass:
        assert value.producer
        return cost_class(value, self.names[value.producer.number])

    def is_large(self, value: Value) -> bool:
        return 32 * value.bytes > self.budget

    def pass_by(self, values: list[Value], cost_of_loss: dict[Value, float], can_go: CanGo) -> None:
        for value in values:
            if value.non_evictable:
                continue
            mine = self.cost_class(value)
            self.passed[mine] += value.bytes
            self.large += value.bytes * self.is_large(value)
            if can_go(value):
                self.losable[mine] += value.bytes
                self.loss[mine] += cost_of_loss[value]

    def address(self, value: Value) -> int | None:
        if self.few or value.non_evictable or self.is_large(value) or self.cost_class(value) not in self.of:
            return None
        return int(self.of[self.cost_class(value)]) // value.bytes * value.bytes

    def end_step(self) -> None:
        def per_byte(mine: CostClass) -> tuple[bool, float]:
            losable = self.losable[mine]
            return (False, self.loss[mine] / losable) if losable else (True, 0.0)

        order = sorted(sorted(self.passed), key=per_byte)
        total = below = 0.0
        for mine in sorted(self.passed):
            total += self.passed[mine]
        self.few = self.large > 0.6 * total
        for mine in reversed(order):
            self.of[mine] = self.budget * (below + self.passed[mine] / 2) / total
            below += self.passed[mine]
