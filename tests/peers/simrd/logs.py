"""Random logs in the form of DTR's: views, several results, updates in place, copies of names, late constants."""

import json
import random
from typing import Any


def random_log(seed: int, n: int, *, mixed_views: bool = False) -> str:
    """A log of about n instructions. Small sizes and costs make ties; mixed_views: views of one of several storages."""
    return _Writer(random.Random(seed)).write(n, mixed_views)


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.live: list[str] = []
        self.root: dict[str, str] = {}
        self.count = 0

    def say(self, kind: str, **fields: Any) -> None:
        self.lines.append(json.dumps({"INSTRUCTION": kind, **fields}))

    def name(self) -> str:
        self.count += 1
        return f"x{self.count}"

    def size(self) -> str:
        return str(self.rng.choice([0, 1, 1, 2, 3, 5, 8, self.rng.randrange(1, 50)]))

    def cost(self) -> str:
        few = self.rng.random() < 0.7
        return str(self.rng.choice([0, 1, 1, 2, 3, self.rng.randrange(1, 30)]) if few else self.rng.randrange(10**6))

    def write(self, n: int, mixed_views: bool) -> str:
        self.say("ANNOTATE", ANNOTATION="START")
        for _ in range(self.rng.randrange(1, 4)):
            self.constant()
        for _ in range(n):
            r = self.rng.random()
            if r < 0.03:
                self.constant()
            elif r < 0.62:
                self.call(mixed_views)
            elif r < 0.67:
                self.mutate()
            elif r < 0.74:
                self.copy(anew=r < 0.69)
            elif len(self.live) > 1:
                self.say("RELEASE", NAME=self.live.pop(self.rng.randrange(len(self.live))))
        kept = self.rng.choice([0.0, 0.03, 0.2])
        for x in self.live:
            if self.rng.random() >= kept:
                self.say("RELEASE", NAME=x)
        return "\n".join(self.lines) + "\n"

    def constant(self) -> None:
        x = self.name()
        self.say("CONSTANT", NAME=x)
        self.say("MEMORY", NAME=x, MEMORY=str(self.rng.choice([0, 1, 2])))
        self.live.append(x)
        self.root[x] = x

    def call(self, mixed_views: bool) -> None:
        rng, live = self.rng, self.live
        args = [
            rng.choice(live[-12:] if rng.random() < 0.7 else live)
            for _ in range(min(len(live), rng.choice([0, 1, 1, 2, 2, 3])))
        ]
        makes_views = bool(args) and rng.random() < 0.3
        if makes_views and not mixed_views:
            args = [x for x in live if self.root[x] == self.root[args[0]]][: rng.choice([1, 1, 2])]
        results = [self.name() for _ in range(rng.choice([1, 1, 1, 1, 2, 3]))]
        self.say("CALL", NAME=rng.choice(["add", "mul", "mm_backward"]), ARGS=args, RESULT=results, TIME=self.cost())
        for x in results:
            is_view = makes_views and (not mixed_views or rng.random() < 0.7)
            alias = rng.randrange(len(args)) if is_view else -1
            self.say("MEMORY", NAME=x, MEMORY=self.size())
            self.say("ALIAS", NAME=x, ALIAS=str(alias))
            self.live.append(x)
            self.root[x] = self.root[args[alias]] if alias >= 0 else x

    def mutate(self) -> None:
        args = self.rng.sample(self.live, min(len(self.live), self.rng.choice([1, 2, 3])))
        args = [x for k, x in enumerate(args) if self.root[x] not in [self.root[y] for y in args[:k]]]
        mutated = self.rng.sample(range(len(args)), self.rng.choice([1, 1, min(2, len(args))]))
        self.say("MUTATE", NAME="add_", ARGS=args, MUTATE=mutated, TIME=self.cost())
        for k in mutated:
            self.root[args[k]] = f"{args[k]}${len(self.lines)}"

    def copy(self, *, anew: bool) -> None:
        if len(self.live) < 2:
            return
        target, source = self.rng.sample(self.live, 2)
        if anew:
            self.say("COPY_FROM", DST=target, SRC=source)
        else:
            target = self.name()
            self.say("COPY", DST=target, SRC=source)
            self.live.append(target)
        self.root[target] = self.root[source]
