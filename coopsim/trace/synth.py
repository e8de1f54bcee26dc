"""Synthetic traces: small nets, each of which makes one effect visible, for tests, documentation and benchmarks.

Each is one training step, written as a tape of forward ops from which backward follows: the backward op of a layer
reads the gradient of its result, its inputs and its weight, and makes a gradient for each. With `weight` bytes above 0
every layer has a parameter of that many, whose gradient lives until SGD has used it; micro-batches of a step add
to it. The same call gives the same trace, bit by bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coopsim.base.errors import unknown
from coopsim.base.types import MIB, CoopsimError, Phase, Role
from coopsim.trace.build import TraceBuilder
from coopsim.trace.table import Trace

CHEAP, EXPENSIVE = "aten.relu.default", "aten.mm.default"


@dataclass(frozen=True)
class _Layer:
    """A forward op on the tape."""

    result: int
    inputs: tuple[int, ...]
    weight: tuple[int, ...]
    name: str
    cost_ns: int


class _Net:
    """Writes forward ops one by one, then all that follows from them."""

    def __init__(self, weight: int, input_bytes: int) -> None:
        self.builder = TraceBuilder()
        self.weight = weight
        self.bytes: dict[int, int] = {}
        self.tape: list[_Layer] = []
        self.parameters: list[int] = []  # of the layers in order
        self.gradients: dict[int, int] = {}  # of parameters
        self.input = self._storage(input_bytes, Role.INPUT, alive_at_start=True)

    def _storage(self, nbytes: int, role: Role = Role.ACTIVATION, *, alive_at_start: bool = False) -> int:
        storage = self.builder.storage(nbytes, role, alive_at_start=alive_at_start)
        self.bytes[storage] = nbytes
        return storage

    def _op(
        self,
        name: str,
        *,
        reads: list[int],
        creates: list[int],
        cost_ns: int,
        mutates: Sequence[int] = (),
        phase: Phase = Phase.FORWARD,
    ) -> None:
        moved = sum(self.bytes[s] for s in {*reads, *creates})
        self.builder.op(
            name,
            reads=reads,
            mutates=mutates,
            creates=creates,
            cost_ns=cost_ns,
            flops=0 if name.startswith("aten.relu") else 1000 * cost_ns,
            bytes_moved=moved,
            phase=phase,
        )

    def layer(self, *inputs: int, nbytes: int, cost_ns: int, name: str = EXPENSIVE) -> int:
        """A forward op that makes `nbytes` from its inputs and a weight of its own, the same in all micro-batches."""
        if self.weight and len(self.tape) == len(self.parameters):
            self.parameters.append(self._storage(self.weight, Role.PARAMETER, alive_at_start=True))
        weight = (self.parameters[len(self.tape)],) if self.weight else ()
        result = self._storage(nbytes)
        self._op(name, reads=[*inputs, *weight], creates=[result], cost_ns=cost_ns)
        self.tape.append(_Layer(result, inputs, weight, name, cost_ns))
        return result

    def backward(self) -> None:
        """Backward over the tape, which is empty then: the next layer begins another micro-batch."""
        gradient = self._loss(self.tape[-1].result)
        for layer in reversed(self.tape):
            self._backward(layer, gradient)
        self.tape = []

    def train(self, label: str) -> Trace:
        """Backward over what is on the tape, then the update of every weight."""
        if self.tape:
            self.backward()
        for weight, of_weight in self.gradients.items():
            self.builder.op(
                "aten.add_.Tensor", reads=[of_weight], mutates=[weight], cost_ns=1000, phase=Phase.OPTIMIZER
            )
            self.builder.free(of_weight)
        return self.builder.build({"model": label, "cost_source": "synthetic"})

    def _loss(self, result: int) -> dict[int, int]:
        gradient = self._storage(self.bytes[result])
        self.builder.op(
            "aten.mse_loss_backward.default", reads=[result], creates=[gradient], cost_ns=1000, phase=Phase.BACKWARD
        )
        return {result: gradient}

    def _backward(self, layer: _Layer, gradient: dict[int, int]) -> None:
        """The gradients of a layer's inputs, added to what others gave them; of its weight, with it."""
        mine = gradient.pop(layer.result)
        made = {s: self._storage(self.bytes[s]) for s in dict.fromkeys(layer.inputs) if s != self.input}
        first = [w for w in layer.weight if w not in self.gradients]
        added = [self.gradients[w] for w in layer.weight if w in self.gradients]
        for w in first:
            self.gradients[w] = self._storage(self.weight, Role.GRADIENT)
        creates = [*made.values(), *(self.gradients[w] for w in first)]
        if creates or added:
            name, cost_ns = layer.name.replace(".default", "_backward.default"), 2 * layer.cost_ns
            reads = [mine, *layer.inputs, *layer.weight]
            self._op(name, reads=reads, mutates=added, creates=creates, cost_ns=cost_ns, phase=Phase.BACKWARD)
        self.builder.free(mine)
        self.builder.free(layer.result)
        for s, new in made.items():
            if s in gradient:
                total = self._storage(self.bytes[s])
                reads = [gradient[s], new]
                self.builder.op("aten.add.Tensor", reads=reads, creates=[total], cost_ns=1000, phase=Phase.BACKWARD)
                for part in reads:
                    self.builder.free(part)
                new = total
            gradient[s] = new


def chain(n: int = 16, nbytes: int = MIB, weight: int = 0, cost_ns: int = 10_000) -> Trace:
    """A chain of `n` equal layers: the textbook case of checkpointing.

    x ─► 1 ─► 2 ─► … ─► n ─┐
    x ◄─ 1' ◄ 2' ◄ … ◄─ n' ┘     i' reads what i read
    """
    net = _Net(weight, nbytes)
    at = net.input
    for _ in range(n):
        at = net.layer(at, nbytes=nbytes, cost_ns=cost_ns)
    return net.train(f"chain-{n}")


def tree(depth: int = 4, nbytes: int = MIB, weight: int = 0, cost_ns: int = 10_000) -> Trace:
    """A binary tree of 2^depth leaves, joined two by two, as in TreeLSTM: deep recomputation fans out.

    x ─► ●─┐
    x ─► ●─┴►●─┐
    x ─► ●─┐   ├►●
    x ─► ●─┴►●─┘        depth 2
    """
    net = _Net(weight, nbytes)

    def node(height: int) -> int:
        children = [node(height - 1), node(height - 1)] if height else [net.input]
        return net.layer(*children, nbytes=nbytes, cost_ns=cost_ns)

    node(depth)
    return net.train(f"tree-{depth}")


def unet(depth: int = 4, nbytes: int = 16 * MIB, weight: int = 0, cost_ns: int = 10_000, least: int = 1) -> Trace:
    """Down and up again, two layers a level of half the bytes each, skip connections across: large tensors live long.

    x ─► ■■■■ ───────────────► ■■■■
           └► ■■ ────────► ■■ ─┘
               └► ■ ───► ■ ┘
                   └► ▪ ─┘         depth 3, and the bottom
    """
    net = _Net(weight, nbytes)

    def level(k: int, *inputs: int) -> int:
        size = max(nbytes >> k, least)
        return net.layer(net.layer(*inputs, nbytes=size, cost_ns=cost_ns), nbytes=size, cost_ns=cost_ns)

    down = [net.input]
    for k in range(depth + 1):
        down.append(level(k, down[-1]))
    at = down.pop()
    for k in reversed(range(depth)):
        at = level(k, at, down.pop())
    return net.train(f"unet-{depth}")


def accumulated(n: int = 8, blocks: int = 6, nbytes: int = MIB, weight: int = MIB // 16) -> Trace:
    """`n` micro-batches through residual blocks, whose gradients add up: a long step that repeats a short one.

    x ─► ■ ─► ▪ ─► + ─► ■■■■ ─► ■■■■ ─► ▪ ─► + ─► …      a block: forward, then backward, then the next micro-batch
      └───────────┘ └───────────────────────┘
    """
    net = _Net(weight, nbytes)
    for _ in range(n):
        at = net.input
        for _ in range(blocks):
            inner = net.layer(net.layer(at, nbytes=3 * nbytes, cost_ns=30_000), nbytes=nbytes, cost_ns=25_000)
            at = net.layer(at, inner, nbytes=nbytes, cost_ns=3_000, name=CHEAP)
            wide = net.layer(at, nbytes=4 * nbytes, cost_ns=40_000)
            inner = net.layer(
                net.layer(wide, nbytes=4 * nbytes, cost_ns=8_000, name=CHEAP), nbytes=nbytes, cost_ns=40_000
            )
            at = net.layer(at, inner, nbytes=nbytes, cost_ns=3_000, name=CHEAP)
        net.backward()
    return net.train(f"accumulated-{n}")


def rnn(
    n: int = 16, nbytes: int = MIB, weight: int = 0, cost_ns: int = 10_000, *, loss_of_states: bool = False
) -> Trace:
    """An RNN over `n` moments of one input: its state and its gates, and of each state an output that stays.

    loss_of_states: the loss reads the states themselves, each of which is made from its gates alone; no outputs.

    x ──────►──────►──────► …
        ▪▪ ─► ▪▪ ─► ▪▪ ─► …     each state from the one before
        ▫     ▫     ▫
    """
    net = _Net(weight, nbytes)
    state, outputs = net.layer(net.input, nbytes=nbytes, cost_ns=cost_ns), []
    for _ in range(n):
        gates = net.layer(net.input, state, nbytes=3 * nbytes, cost_ns=cost_ns)
        of = (gates,) if loss_of_states else (gates, state)
        state = net.layer(*of, nbytes=nbytes, cost_ns=max(cost_ns // 10, 1), name=CHEAP)
        outputs.append(state if loss_of_states else net.layer(state, nbytes=max(nbytes // 8, 1), cost_ns=cost_ns))
    net.layer(*outputs, nbytes=nbytes, cost_ns=cost_ns)
    return net.train(f"rnn-{n}")


def holes(n: int = 16, nbytes: int = MIB, weight: int = 0, cost_ns: int = 10_000) -> Trace:
    """Cheap and expensive results side by side, then a wide one: dropping the cheapest first leaves too small holes.

        address ►  │c│E│c│E│c│E│c│E│      c: cheap to recompute, E: expensive
                   │ │E│ │E│ │E│ │E│      one at a time, the cheapest first: n holes of one
                   │     │E│c│E│c│E│      the cheapest neighbours: one hole of three

    `n` pairs of one size; then a layer of three times the bytes, which needs room in one block.
    """
    net = _Net(weight, nbytes)
    at = net.input
    for _ in range(n):
        cheap = net.layer(at, nbytes=nbytes, cost_ns=max(cost_ns // 100, 1), name=CHEAP)
        at = net.layer(cheap, nbytes=nbytes, cost_ns=cost_ns)
    net.layer(at, nbytes=3 * nbytes, cost_ns=cost_ns)
    return net.train(f"holes-{n}")


NAMES: dict[str, Callable[..., Trace]] = {
    "accumulated": accumulated,
    "chain": chain,
    "holes": holes,
    "rnn": rnn,
    "tree": tree,
    "unet": unet,
}
_MOST = {"accumulated": 10_000, "chain": 100_000, "holes": 50_000, "rnn": 50_000, "tree": 14, "unet": 24}


def make(spec: str) -> Trace:
    """The trace of `synth:NAME` or `synth:NAME:SIZE`; CoopsimError, with the nearest names, if there is none.

    >>> make("synth:chain:3").label
    'chain-3'
    """
    name, _, size = spec.removeprefix("synth:").partition(":")
    if name not in NAMES:
        raise unknown("synthetic trace", name, NAMES, " (synth:NAME[:SIZE])")
    if not size:
        return NAMES[name]()
    if not size.isascii() or not size.isdigit() or not 1 <= int(size) <= _MOST[name]:
        raise CoopsimError(f"synth:{name} takes a size from 1 to {_MOST[name]}, not {size!r}")
    return NAMES[name](int(size))
