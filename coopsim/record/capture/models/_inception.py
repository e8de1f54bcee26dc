"""The parts of the Inception networks. Imports torch, so that only a model's `build` may import it."""

from typing import TypeAlias

import torch
from torch import nn

#: A convolution of a chain: output channels, kernel (side, or height and width), and the stride of one without padding.
Link: TypeAlias = tuple[int, int | tuple[int, int]] | tuple[int, int | tuple[int, int], int]


class Branches(nn.ModuleList):
    """Modules in parallel, on the same input, whose outputs are concatenated along the channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self], 1)


def chain(inputs: int, *links: Link) -> nn.Sequential:
    """Return convolutions without bias in sequence, each with batch norm and in-place ReLU.

    A link without a stride is padded and keeps the image's size; one with a stride, even 1, is not padded.
    """
    layers: list[nn.Module] = []
    for outputs, kernel, *stride in links:
        sides = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        padding = (0, 0) if stride else (sides[0] // 2, sides[1] // 2)
        layers += [
            nn.Conv2d(inputs, outputs, sides, stride[0] if stride else 1, padding, bias=False),
            nn.BatchNorm2d(outputs, eps=0.001),
            nn.ReLU(inplace=True),
        ]
        inputs = outputs
    return nn.Sequential(*layers)


def pooled(inputs: int, outputs: int, *, count_padding: bool) -> nn.Sequential:
    """Return a 3x3 average pooling and a 1x1 convolution."""
    return nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=count_padding), *chain(inputs, (outputs, 1)))


def fork(inputs: int, outputs: int, *links: Link) -> nn.Sequential:
    """Return a chain that ends in two parallel convolutions, 1x3 and 3x1, of `outputs` channels each."""
    last = links[-1][0]
    return nn.Sequential(
        chain(inputs, *links), Branches([chain(last, (outputs, (1, 3))), chain(last, (outputs, (3, 1)))])
    )
