"""Values and ops, how they are related, and the two kinds of sets that evicted values join."""

from dataclasses import dataclass, field

NEVER = 1 << 62


@dataclass(eq=False)
class Op:
    number: int
    step: int
    cost: int
    decision_cost: int
    expensive: bool
    random: bool
    inputs: "list[Value]" = field(default_factory=list)
    outputs: "list[Value]" = field(default_factory=list)
    temporaries: "list[Value]" = field(default_factory=list)


@dataclass(eq=False)
class Class:
    """Values that were evicted next to each other, and what they cost together (DTR)."""

    cost: int
    members: "set[Value]"


@dataclass(eq=False)
class Node:
    """Of the union-find forest (OneFlow)."""

    cost: int
    parent: "Node | None" = None

    def root(self) -> "Node":
        """What stands for its set. All on the way hang from it then, which tells when one of them leaves."""
        if self.parent is None:
            return self
        self.parent = self.parent.root()
        return self.parent


@dataclass(eq=False)
class Value:
    """A version of a storage, or a temporary (storage -1): what it is, then where it is."""

    storage: int
    version: int
    bytes: int  # rounded up to the granule
    role: str
    producer: Op | None = None
    before: "Value | None" = None  # the version that an op mutated to make this one
    consumers: list[Op] = field(default_factory=list)  # the ops that have it as input
    non_evictable: bool = False
    in_place: bool = False  # it takes over the place of `before`
    saved: bool = False  # its storage is, for backward
    number: int = -1  # in the order of all values
    made: bool = False  # in this iteration
    resident: bool = False
    on_host: bool = False
    live: bool = False
    pins: int = 0
    banished: bool = False  # in this iteration
    held: bool = False  # for good, as something that it was made from is banished
    updated: bool = False  # in place, in this iteration
    gone: bool = False  # for good, in this iteration (`release = counted`)
    last_use: int = 0
    node: Node = field(default_factory=lambda: Node(0))
    class_: Class | None = None

    @property
    def name(self) -> tuple[int, int]:
        return self.storage, self.version

    @property
    def missing(self) -> bool:
        return not self.resident and not self.on_host

    @property
    def own_cost(self) -> int:
        return self.producer.decision_cost if self.producer else 0

    @property
    def can_go(self) -> bool:
        """A resident one may be chosen by a search."""
        return not self.non_evictable and self.pins == 0 and not self.held

    # Relatives

    def missing_relatives(self) -> "list[Value]":
        """Of the inputs of the op that makes it, then its siblings, those that are missing."""
        op = self.producer
        relatives = [*op.inputs, *(w for w in op.outputs if w is not self)] if op else []
        return [v for v in relatives if v.missing and not v.gone]

    @property
    def evicted(self) -> bool:
        return self.made and not self.non_evictable and self.missing and not self.banished and not self.gone

    def evicted_parents(self) -> "list[Value]":
        return [v for v in (self.producer.inputs if self.producer else []) if v.evicted]

    def evicted_children(self) -> "list[Value]":
        return [w for op in self.consumers for w in op.outputs if w.evicted]

    @property
    def needed(self) -> bool:
        """Something evicted that the program holds would be made from it, by way of evicted ones."""
        met = {self}
        below = [self]
        for v in below:
            for w in v.evicted_children():
                if w.live:
                    return True
                if w not in met:
                    met.add(w)
                    below.append(w)
        return False

    def resident_ancestors(self) -> "list[Value]":
        """The nearest ones, by way of evicted ones."""
        found: list[Value] = []
        above = [self]
        for v in above:
            for u in v.producer.inputs if v.producer else []:
                if u not in found and u not in above:
                    if u.resident:
                        found.append(u)
                    elif u.evicted:
                        above.append(u)
        return found

    # Union-find sets (OneFlow)

    def join_sets(self) -> None:
        for other in self.missing_relatives():
            mine, theirs = self.node.root(), other.node.root()
            if mine is not theirs:
                mine.cost += theirs.cost
                theirs.parent = mine

    def leave_set(self) -> None:
        self.node.root().cost -= self.node.cost
        self.node.cost = self.own_cost
        self.node.parent = None

    # Classes (DTR)

    def relatives_classes(self) -> set[Class]:
        """Evicted parents and children are in one each, except those that an update in place has replaced."""
        return {v.class_ for v in self.evicted_parents() + self.evicted_children() if v.class_ is not None}

    def join_classes(self) -> None:
        merged = Class(self.own_cost, {self})
        for other in self.relatives_classes():
            merged.cost += other.cost
            merged.members |= other.members
        for member in merged.members:
            member.class_ = merged

    def leave_class(self) -> None:
        if self.class_ is not None:
            self.class_.cost -= self.own_cost
            self.class_.members.remove(self)
            self.class_ = None

    # Either

    def lost(self) -> None:
        """It has been evicted or released."""
        self.join_sets()
        self.join_classes()

    def back(self) -> None:
        """Its op has run."""
        self.leave_set()
        self.leave_class()

    def forget(self) -> None:
        """An iteration is over."""
        self.made = self.banished = self.held = self.updated = self.gone = False
        self.node, self.class_ = Node(self.own_cost), None
