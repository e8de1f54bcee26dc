"""The training steps that the small traces beside this file record: `coopsim capture steps.py:bert -o bert.parquet`.

Real models made so small that the least overhead can be found exactly.
"""

import itertools

import torch
from torch import nn
from torch.nn import functional


class Unrolled(nn.Module):
    """An LSTM cell, six steps, and a classifier on the last state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell, self.last = nn.LSTMCell(width, width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for part in x.unbind(0):
            state = self.cell(part, state)
        return self.last(state[0])


class Classifier(nn.Module):
    """Ten classes from what a BERT pools."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert, self.last = bert, nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.bert(x).pooler_output)


class Block(nn.Module):
    """A residual block as in ResNet, its activations updated in place."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.two = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norms[0](self.one(x)), inplace=True)
        inner = self.norms[1](self.two(inner))
        inner += x
        return functional.relu(inner, inplace=True)


def _step(model: nn.Module, x: torch.Tensor) -> None:
    """Forward, backward and a plain update; gradients dropped at the end."""
    scores = model(x)
    functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long, device="cuda")).backward()
    with torch.no_grad():
        parameters = [p for p in model.parameters() if p.grad is not None]
        torch._foreach_sub_(parameters, [p.grad for p in parameters], alpha=0.1)
    model.zero_grad()


_made: dict[str, tuple[nn.Module, torch.Tensor]] = {}


def _once(name: str, model: nn.Module, *shape: int) -> tuple[nn.Module, torch.Tensor]:
    """The model and its input, made in the first step and the same ever after."""
    if name not in _made:
        _made[name] = (model.cuda(), torch.randn(*shape, device="cuda"))
    return _made[name]


def mlp() -> None:
    """Four layers with GELU, 4096 rows."""
    widths = [256, 1024, 1024, 512, 10]
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), nn.GELU()]
    _step(*_once("mlp", nn.Sequential(*layers[:-1]), 4096, 256))


def lstm() -> None:
    """Six steps of an LSTM cell."""
    _step(*_once("lstm", Unrolled(512), 6, 256, 512))


def bert() -> None:
    """BERT of one layer without dropout, 8 sequences of 128 tokens; loss on the pooled output."""
    if "bert" not in _made:
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=1024,
            hidden_size=256,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=1024,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="eager",
        )
        bert = BertModel(config)
        _made["bert"] = (Classifier(bert).cuda(), torch.randint(0, 1024, (8, 128), device="cuda"))
    _step(*_made["bert"])


def resnet() -> None:
    """A stem and two residual blocks, ReLU in place."""
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1, bias=False),
        Block(64),
        Block(64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    _step(*_once("resnet", net, 64, 3, 32, 32))
