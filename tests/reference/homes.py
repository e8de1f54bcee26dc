"""Where values belong, by what losing them costs a byte and by how much of it searches pass."""

from collections import defaultdict

from tests.reference.values import Value

Grade = tuple[int, int, str]


def grade(value: Value, name: str) -> Grade:
    """Cheaper a byte comes first; within an eighth of an octave the name of the op decides."""
    per_byte, halvings = (value.own_cost + 1) * 2**60 // value.bytes, 0
    while per_byte >= 16:
        per_byte, halvings = per_byte // 2, halvings + 1
    return halvings, per_byte, name


class Homes:
    """Remembers what searches have passed, and since the last step where each grade is at home."""

    def __init__(self, budget: int, names: list[str]) -> None:
        self.budget, self.names = budget, names
        self.passed: dict[Grade, float] = defaultdict(float)  # bytes
        self.large = 0.0  # bytes of values without a home
        self.losable: dict[Grade, float] = defaultdict(float)  # bytes that could be evicted
        self.loss: dict[Grade, float] = defaultdict(float)  # and what losing them would have cost
        self.of: dict[Grade, float] = {}
        self.few = False

    def grade(self, value: Value) -> Grade:
        assert value.producer
        return grade(value, self.names[value.producer.number])

    def is_large(self, value: Value) -> bool:
        return 32 * value.bytes > self.budget

    def pass_by(self, values: list[Value], cost_of_loss: dict[Value, float]) -> None:
        for value in values:
            if value.fixed:
                continue
            mine = self.grade(value)
            self.passed[mine] += value.bytes
            self.large += value.bytes * self.is_large(value)
            if value.can_go:
                self.losable[mine] += value.bytes
                self.loss[mine] += cost_of_loss[value]

    def home(self, value: Value) -> int | None:
        if self.few or value.fixed or self.is_large(value) or self.grade(value) not in self.of:
            return None
        return int(self.of[self.grade(value)]) // value.bytes * value.bytes

    def end_step(self) -> None:
        def dearness(mine: Grade) -> tuple[bool, float]:
            losable = self.losable[mine]
            return (False, self.loss[mine] / losable) if losable else (True, 0.0)

        order = sorted(sorted(self.passed), key=dearness)
        total = below = 0.0
        for mine in sorted(self.passed):
            total += self.passed[mine]
        self.few = self.large > 0.6 * total
        for mine in reversed(order):
            self.of[mine] = self.budget * (below + self.passed[mine] / 2) / total
            below += self.passed[mine]
