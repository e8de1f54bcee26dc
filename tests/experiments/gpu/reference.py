"""For a Python with a CPU build of PyTorch: a recorded step, executed by schedules, beside ordinary training.

python -m tests.experiments.gpu.reference NAME; prints one JSON object, a key per policy. Every byte that a schedule
drops is overwritten, so that no value can be read that is not there.
"""

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from coopsim.cards import profiles
from coopsim.record.observe import costs, effects, recorder, roles
from coopsim.record.observe.temporaries import History
from coopsim.simulate.replay import replay
from coopsim.study.validate import validate
from coopsim.trace.measure import peak_bytes
from experiments.gpu import execute, program, stage_execute

POLICIES = ("foresight", "coop", "dtr-oneflow", "dte-oneflow", "lru")
ITERATIONS = 3
WARMUP = 2
CPU = torch.device("cpu")


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


effects.tensors = recorder.tensors = roles.tensors = tensors  # the recorder looks at the GPU's only


class Cpu:
    """Stands for the device (coopsim/record/observe/device.py)."""

    def __init__(self) -> None:
        self.history = History(available=False)
        self.header: dict[str, Any] = {}

    def stream(self) -> int:
        return 0

    def clear(self, _: torch.Tensor) -> None: ...

    def value(self, _func: Any, _args: Any) -> None: ...

    def settle(self) -> None: ...

    def layout(self) -> list[Any]:
        return []

    def requested_bytes(self) -> int:
        return 0

    def peaks(self) -> dict[str, int]:
        return {}


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.first, self.second = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = functional.relu_(self.first(self.one(x)))
        h = functional.dropout(h, 0.2)
        return functional.relu_(self.second(self.two(h)).add_(x))


def convolutions() -> tuple[nn.Module, torch.Tensor]:
    """In-place activations, running statistics, random numbers."""
    stem = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(inplace=True)]
    head = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10)]
    return nn.Sequential(*stem, *(Block(16) for _ in range(4)), *head), torch.randn(8, 3, 16, 16)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = {"d_model": 32, "nhead": 4, "dim_feedforward": 64, "dropout": 0.1, "batch_first": True}
        self.body = nn.ModuleList(nn.TransformerEncoderLayer(**layer) for _ in range(4))
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x)
        for layer in self.body:
            h = layer(h)
        return self.head(h.mean(1))


def attention() -> tuple[nn.Module, torch.Tensor]:
    """Views of many kinds, and a dropout in each layer."""
    return Attention(), torch.randint(0, 50, (8, 24))


MODELS = {"convolutions": convolutions, "attention": attention}


def training(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> tuple[Callable[[], object], nn.Module, list[float]]:
    torch.manual_seed(1)
    model, x = make()
    y = torch.randint(0, 10, (len(x),))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    losses: list[float] = []

    def step() -> None:
        loss = functional.cross_entropy(model(x), y)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, model, losses


def state(model: nn.Module) -> list[bytes]:
    tensors = itertools.chain(model.parameters(), model.buffers())
    return sorted(t.detach().numpy().tobytes() for t in tensors if t.is_floating_point())


def values(kept: list[torch.Tensor]) -> list[float]:
    return [data.view(torch.float32)[0].item() for data in kept]


def comparisons(state: dict[int, torch.Tensor]) -> list[dict[str, Any]]:
    """Of a state with others: half as large in one number, with one that is none, and with a storage less."""
    storage = next(s for s, data in state.items() if len(data) > 64 and data.any())
    found = []
    for value in (None, float("nan")):
        other = {s: data.clone() for s, data in state.items()}
        numbers = other[storage].view(torch.float32)
        largest = numbers.abs().argmax()
        numbers[largest] = numbers[largest] / 2 if value is None else value
        found.append(stage_execute.compared(state, other))
    found.append(stage_execute.compared(state, {s: data for s, data in state.items() if s != storage}))
    return found


def main(name: str) -> None:
    torch.set_num_threads(1)
    step, model, losses = training(MODELS[name])
    for _ in range(WARMUP):
        step()
    start = state(model)
    ends = []
    for _ in range(ITERATIONS):
        step()
        ends.append(state(model))

    keep: list[Any] = []

    def build() -> Callable[[], object]:
        step, *rest = training(MODELS[name])
        keep.extend(rest)
        return step

    cost_model = costs.OpCostModel(profiles.get("a100-80gb"), "fp32")
    recorded = program.record(build, Cpu(), cost_model, "cpu", torch.default_generator, warmup=WARMUP)
    trace = recorded.trace
    loss = trace.creates[list(trace.name).index("aten.nll_loss_forward.default")][0]
    answer: dict[str, Any] = {
        "recording_is_the_training": state(keep[0]) == ends[0] and keep[1] == losses[: WARMUP + 1]
    }
    plain = replay(trace, "coop:placement=low", 2 * peak_bytes(trace, 512), steps=ITERATIONS)
    machine = execute.Machine(recorded, plain.header["budget_bytes"], CPU, torch.default_generator)
    machine.run(execute.events(plain))
    last = machine.iterations[-1]
    answer["comparisons"] = comparisons(last)
    for policy in POLICIES:
        for percent in range(50, 101, 2):
            schedule = replay(trace, policy, peak_bytes(trace, 512) * percent // 100, steps=ITERATIONS)
            if schedule.header["outcome"] == "ok":
                break
        happenings = execute.events(schedule)
        nbytes = schedule.header["budget_bytes"]
        generator = torch.default_generator
        machine = execute.Machine(recorded, nbytes, CPU, generator, poison=True, watch=(loss,))
        machine.run(happenings)
        parts = [machine.block[a : a + trace.bytes[v[0]]] for v, a in machine._address.items()]
        end = [part.numpy().tobytes() for part in parts]
        answer[policy] = {
            "percent": percent,
            "sound": not validate(schedule, trace),
            "recomputed": sum(isinstance(e, execute.Run) and e.again for e in happenings),
            "random_recomputed": sum(
                isinstance(e, execute.Run) and e.again and bool(trace.random[e.op]) for e in happenings
            ),
            "losses": values(machine.watched[loss]) == losses[WARMUP:],
            "last_step": stage_execute.compared(last, machine.iterations[-1]),
            "iterations": len(machine.iterations),
            "first_step": {s: torch.equal(x, recorded.final[s]) for s, x in machine.iterations[0].items()},
            "states_found": sum(s in end for s in ends[-1]),
            "states": len(ends[-1]),
            "moved": sum(a != b for a, b in zip(start, ends[-1], strict=True)),
        }
        answer[policy]["first_step"] = [len(recorded.final), sum(answer[policy]["first_step"].values())]
    forgetful = execute.Machine(recorded, nbytes, CPU, generator, watch=(loss,))
    forgetful._random = [False] * trace.n_ops  # recomputed dropouts draw new numbers
    forgetful.run(happenings)
    answer["with_new_random_numbers"] = values(forgetful.watched[loss]) == losses[WARMUP:]
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
