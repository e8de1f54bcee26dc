"""SPOS: a supernet of which each step trains one path, drawn at random from a constant seed, so that steps differ.

Each block is trained once while the model is built, so that the optimizer's state is complete. Batch norms have no
scale and shift. Channels are those of ShunLu91/Single-Path-One-Shot-NAS, from which the script of Coop's authors
derives; the shuffle follows the concatenation, as in ShuffleNetV2's paper.
"""

import random
from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

PIXELS, CLASSES = 32, 10
LAYERS, CHOICES = 20, 4
CHANNELS = (16, *[64] * 4, *[160] * 4, *[320] * 8, *[640] * 4)  # of the stem, and after each layer
HALVING = (4, 8)  # layers that halve the sides; images of ImageNet's size would be halved by 0, 4, 8 and 16
LAST = 1024
PARAMETERS = 6_918_824  # not published; a test computes the sum by hand


def network() -> Any:
    """Make the supernet of ShuffleNetV2 blocks, in which half of the channels bypass the branch, resized if need be."""
    import torch
    from torch import nn

    def normalised(convolution: nn.Conv2d, *, activated: bool) -> list[nn.Module]:
        # without scale and shift, because a supernet's blocks share no statistics
        norm = nn.BatchNorm2d(convolution.out_channels, affine=False)
        return [convolution, norm, *([nn.ReLU(inplace=True)] if activated else [])]

    def points(inputs: int, outputs: int) -> list[nn.Module]:
        return normalised(nn.Conv2d(inputs, outputs, 1, bias=False), activated=True)

    def depths(channels: int, kernel: int, stride: int) -> list[nn.Module]:
        convolution = nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=channels, bias=False)
        return normalised(convolution, activated=False)

    def branch(choice: int, inputs: int, inner: int, outputs: int, stride: int) -> nn.Sequential:
        """Make the branch of a choice: a kernel of 3, 5 or 7 between two 1x1 convolutions, or Xception's three of 3."""
        if choice < 3:
            kernel = (3, 5, 7)[choice]
            return nn.Sequential(*points(inputs, inner), *depths(inner, kernel, stride), *points(inner, outputs))
        return nn.Sequential(
            *depths(inputs, 3, stride),
            *points(inputs, inner),
            *depths(inner, 3, 1),
            *points(inner, inner),
            *depths(inner, 3, 1),
            *points(inner, outputs),
        )

    class Block(nn.Module):
        def __init__(self, choice: int, inputs: int, outputs: int, *, halving: bool) -> None:
            super().__init__()
            kept = inputs if halving else inputs // 2
            self.branch = branch(choice, kept, outputs // 2, outputs - kept, 2 if halving else 1)
            self.resize = nn.Sequential(*depths(kept, 3, 2), *points(kept, kept)) if halving else None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            passing, worked = (x, x) if self.resize is not None else x.chunk(2, 1)
            if self.resize is not None:
                passing = self.resize(passing)
            joined = torch.cat([passing, self.branch(worked)], 1)
            # channel shuffle in two groups
            return joined.view(x.size(0), 2, -1, *joined.shape[2:]).transpose(1, 2).flatten(1, 2)

    class Supernet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            stem = nn.Conv2d(3, CHANNELS[0], 3, padding=1, bias=False)
            self.stem = nn.Sequential(stem, nn.BatchNorm2d(CHANNELS[0], affine=False), nn.ReLU6(inplace=True))
            self.layers = nn.ModuleList(
                nn.ModuleList(
                    Block(choice, CHANNELS[i], CHANNELS[i + 1], halving=i in HALVING) for choice in range(CHOICES)
                )
                for i in range(LAYERS)
            )
            last = nn.Conv2d(CHANNELS[-1], LAST, 1, bias=False)
            self.last = nn.Sequential(last, nn.BatchNorm2d(LAST, affine=False), nn.ReLU6(inplace=True))
            self.classify = nn.Linear(LAST, CLASSES, bias=False)

        def forward(self, x: torch.Tensor, path: list[int]) -> torch.Tensor:
            x = self.stem(x)
            for layer, choice in zip(self.layers, path, strict=True):
                x = layer.get_submodule(str(choice))(x)
            logits: torch.Tensor = self.classify(self.last(x).mean((2, 3)))
            return logits

    return Supernet()


def build(setting: Setting) -> Callable[[], object]:
    """Build the model; a step trains on `batch` images along a new path. The paths are the same in every run."""
    import torch
    from torch.nn import functional

    from coopsim.record.capture.models._step import check_parameters, training_step

    with torch.device("cuda"):
        model = network().train()
        images = torch.ones(setting.batch, 3, PIXELS, PIXELS)
        labels = torch.ones(setting.batch, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    # train every block once, so that the optimizer's state is complete, as in long training
    paths = [[choice] * LAYERS for choice in reversed(range(CHOICES))]
    drawn = random.Random(0)

    def loss() -> torch.Tensor:
        path = paths.pop() if paths else drawn.choices(range(CHOICES), k=LAYERS)
        return functional.cross_entropy(model(images, path), labels)

    step = training_step(setting, model, loss)
    while paths:
        step()
    return step


MODEL = Model(
    name="spos",
    title="SPOS supernet, 20 layers of 4 blocks, a path drawn every step, 32x32 images",
    batch=256,
    source="Guo et al. 2020 (supernet, blocks of ShuffleNetV2), channels as ShunLu91/Single-Path-One-Shot-NAS; "
    "batch 256 of CIFAR's size and SGD with momentum as in Coop (NeurIPS 2023)",
    build=build,
    optimizer="momentum",
    optimizer_options={"lr": 0.025, "weight_decay": 3e-4},
    details={"pixels": PIXELS},
)
