"""Trains on the phantom GPU in half its memory, where attention costs more than live thinks; prints times by the clock.

python priced.py [events]: live times ops by events, as on a card.
"""

import contextlib
import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from coopsim.cards import profiles
from coopsim.live import Budget, device, session
from coopsim.phantom.control import Control
from coopsim.record.observe.costs import OpCostModel

device.is_timed = lambda _type: "events" in sys.argv  # type: ignore[assignment]


class Cheap(OpCostModel):
    def nanoseconds(self, name: str, call: Any) -> int:
        return super().nanoseconds(name, call) // (40 if "attention" in name else 1)


device.cost_model = lambda _type: Cheap(profiles.get("h100-80gb"), None)  # type: ignore[assignment]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.all, self.out = nn.LayerNorm(512), nn.Linear(512, 1536), nn.Linear(512, 512)
        self.wide = nn.Sequential(nn.LayerNorm(512), nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.all(self.norm(x)).view(32, 512, 3, 8, 64).permute(2, 0, 3, 1, 4)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(32, 512, 512))
        return x + self.wide(x)


torch.backends.cuda.matmul.allow_tf32 = True
model = nn.Sequential(*(Block() for _ in range(6))).cuda()
optimizer = torch.optim.Adam(model.parameters())
x = torch.zeros(32, 512, 512, device="cuda")
control = Control()
session.time = SimpleNamespace(perf_counter_ns=lambda: control.now_ns)  # type: ignore[assignment]


def took(around: Any) -> int:
    torch.cuda.synchronize()
    begun = control.now_ns
    with around:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return control.now_ns - begun


plain = [took(contextlib.nullcontext()) for _ in range(3)][-1]
budget = Budget("50%")
steps = [took(budget.step()) for _ in range(12)]
print(json.dumps(budget.report() | {"plain_ns": plain, "took_ns": steps}))
