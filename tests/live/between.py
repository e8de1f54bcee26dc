"""Train a program whose steps follow each other at once, as those of a script do, in a budget and without one."""

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from coopsim.live.budget import report
from coopsim.live.host.hosting import Hosting
from coopsim.live.session import TrainingSession
from tests.live.compare import bits

WIDTH, DEPTH = 128, 12
Ended = Callable[[], None]  #: to be called where the optimizer has stepped
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "loop": lambda parameters: torch.optim.Adam(parameters, foreach=False),
    "foreach": lambda parameters: torch.optim.AdamW(parameters, foreach=True, amsgrad=True),
    "fused": lambda parameters: torch.optim.Adam(parameters, fused=True),
    "momentum": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, foreach=True),
}


def program(optimizer: str, odd: int) -> tuple[list[Any], Callable[[int, Ended], float]]:
    """Layers of 64 KiB, with next to no activations. odd: the step that differs, and looks at the state."""
    layers = [layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 10))
    made = OPTIMIZERS[optimizer](model.parameters())

    def step(i: int, ended: Ended) -> float:
        x, y = torch.randn(16, WIDTH), torch.randint(0, 10, (16,))
        made.zero_grad()
        out = model(x)
        if i == odd:
            out = out.neg()
        loss = functional.cross_entropy(out, y)
        loss.backward()
        looked = 0.0
        if i == odd:
            looked = sum(float(value.sum()) for state in made.state.values() for value in state.values())
        made.step()
        ended()
        return loss.item() + looked

    return [model, made], step


def between(
    optimizer: str, memory: str, hosting: Hosting | None, steps: int = 9, odd: int = 5, over: bool = False
) -> dict[str, Any]:
    """The report of the run in a budget; `same`: were losses and all states the same? `left`: bytes on the host.

    left: between steps, at most. over: the last step ends, and none follows.
    """
    torch.set_num_threads(1)
    gc.collect()
    torch.manual_seed(1)
    state, step = program(optimizer, odd)
    losses = [step(i, lambda: None) for i in range(steps)]
    wanted = bits(state)
    del state, step
    gc.collect()
    torch.manual_seed(1)
    state, step = program(optimizer, odd)
    session = TrainingSession(memory, "foresight-offline", "cpu", offload=hosting, seamless=True)
    left, places = [0], set()

    def ended() -> None:
        session.end()
        left.append(session.bytes_on_host)
        places.update(place for kind in session.known.signatures if kind.plan for place in kind.plan.on_host)
        session.begin()

    session.begin()
    found = [step(i, ended) for i in range(steps)]
    if over:
        session.end()
        session.bring_back()
    else:
        session.abandon()
    same = losses == found and wanted == bits(state)
    return report(session) | {"same": same, "left": max(left), "away": len(places), "now": session.bytes_on_host}
