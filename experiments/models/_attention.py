"""Attention of several heads, as the networks written here share it. Imports torch: only a `build` may import it."""

import torch
from torch import nn
from torch.nn import functional

from coopsim.record.capture.models._model import Attention


class Heads(nn.Module):
    """Every token of `x` looks at every token of `seen` (left out: of `x`). `kind` sdpa: by one fused op."""

    def __init__(self, width: int, heads: int, kind: Attention | None, dropout: float = 0.0) -> None:
        super().__init__()
        self.query, self.key, self.value, self.project = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.kind, self.dropout = heads, kind, dropout

    def forward(self, x: torch.Tensor, seen: torch.Tensor | None = None) -> torch.Tensor:
        seen = x if seen is None else seen
        query, key, value = (
            linear(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear, tokens in ((self.query, x), (self.key, seen), (self.value, seen))
        )
        if self.kind == "sdpa":
            mixed = functional.scaled_dot_product_attention(query, key, value, dropout_p=self.dropout)
        else:
            scores = (query @ key.transpose(-1, -2) * query.size(-1) ** -0.5).softmax(-1)
            mixed = functional.dropout(scores, self.dropout) @ value
        projected: torch.Tensor = self.project(mixed.transpose(1, 2).flatten(2))
        return projected
