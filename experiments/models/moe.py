"""A small transformer with a mixture of experts: how many tokens each expert gets differs from step to step.

Each token goes to two of eight experts, without a capacity limit. A phantom GPU computes no values, so the routing is
drawn on the host from a constant seed: sizes of activations differ from step to step, the ops do not.
"""

import random
from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

WIDTH, HEADS, LAYERS, VOCABULARY, TOKENS = 512, 8, 4, 8192, 512
EXPERTS, CHOSEN, INNER = 8, 2, 2048  # of every other layer; how many each token goes to; hidden units of an expert
MIXED = LAYERS // 2
PARAMETERS = 46_471_168  # a test computes the sum by hand


def shares(dice: random.Random, tokens: int) -> list[list[int]]:
    """Draw on the host which tokens go to each expert, two experts per token, with unequal probabilities."""
    liking = [dice.expovariate(1) + 0.2 for _ in range(EXPERTS)]
    chosen: list[list[int]] = [[] for _ in range(EXPERTS)]
    for token in range(tokens):
        first = dice.choices(range(EXPERTS), liking)[0]
        others = [weight * (expert != first) for expert, weight in enumerate(liking)]
        for expert in (first, dice.choices(range(EXPERTS), others)[0]):
            chosen[expert].append(token)
    return chosen


def network() -> Any:
    """Make a pre-norm decoder. A router gives the weights; the routes are drawn, as no values are computed."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Expert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.down(functional.gelu(self.up(x)))
            return y

    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
            self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

        def forward(self, x: torch.Tensor, routes: list[list[int]]) -> torch.Tensor:
            flat = x.flatten(0, 1)
            weights = self.router(flat).softmax(-1)
            mixed = torch.zeros_like(flat)
            for number, (expert, tokens) in enumerate(zip(self.experts, routes, strict=True)):
                if not tokens:
                    continue
                rows = torch.tensor(tokens).to(flat.device)
                made = expert(flat.index_select(0, rows)) * weights[:, number].index_select(0, rows).unsqueeze(1)
                mixed = mixed.index_add(0, rows, made)
            return mixed.view_as(x)

    class Layer(nn.Module):
        def __init__(self, *, mixed: bool) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attention = nn.Linear(WIDTH, 3 * WIDTH)
            self.project = nn.Linear(WIDTH, WIDTH)
            self.mixed = mixed
            self.mlp = Mixture() if mixed else Expert()

        def forward(self, x: torch.Tensor, routes: list[list[int]]) -> torch.Tensor:
            batch, tokens, _ = x.shape
            split = self.attention(self.before(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
            query, key, value = split.permute(2, 0, 3, 1, 4)
            scores = (query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5).softmax(-1)
            x = x + self.project((scores @ value).transpose(1, 2).reshape(batch, tokens, WIDTH))
            normed = self.after(x)
            y: torch.Tensor = x + (self.mlp(normed, routes) if self.mixed else self.mlp(normed))
            return y

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
            self.layers = nn.ModuleList(Layer(mixed=i % 2 == 1) for i in range(LAYERS))
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, words: torch.Tensor, routes: list[list[list[int]]]) -> torch.Tensor:
            x = self.words(words) + self.places.weight
            for i, layer in enumerate(self.layers):
                x = layer(x, routes[i // 2])
            return functional.linear(self.norm(x), self.words.weight)

    return Decoder()


def build(setting: Setting) -> Callable[[], object]:
    """Build the model; a step trains on `batch` sequences, with new routes, which are the same in every run."""
    import torch
    from torch.nn import functional

    from coopsim.record.capture.models._step import check_parameters, training_step

    with torch.device("cuda"):
        model = network().train()
        words = torch.ones(setting.batch, TOKENS, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    dice = random.Random(0)

    def loss() -> torch.Tensor:
        routes = [shares(dice, setting.batch * TOKENS) for _ in range(MIXED)]
        return functional.cross_entropy(model(words, routes).flatten(0, 1), words.flatten())

    return training_step(setting, model, loss)


MODEL = Model(
    name="moe",
    title="transformer, 8 experts in every other layer, 2 for each token, routed anew every step, 512 tokens",
    batch=16,
    source="ours: experts in every other layer, two for each token, as in GShard (Lepikhin et al. 2020), without a "
    "capacity; who goes where is drawn on the host, for on a phantom GPU no router computes it",
    build=build,
    optimizer="adamw",
    details={"experts": EXPERTS, "experts_per_token": CHOSEN, "tokens": TOKENS},
)
step = MODEL.step
