"""The parts of the Inception networks. Imports torch: only a model's `build` may import it."""

from typing import TypeAlias

import torch
from torch import nn

#: A convolution of a chain: outputs, kernel (one side, or height and width), and the stride of one without padding.
Link: TypeAlias = tuple[int, int | tuple[int, int]] | tuple[int, int | tuple[int, int], int]


class Branches(nn.ModuleList):
    """Modules beside each other, on the same input: their outputs are joined along the channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self], 1)


def chain(inputs: int, *links: Link) -> nn.Sequential:
    """Convolutions without bias in a row, each with batch norm and ReLU in place.

    Without a stride a convolution is padded and keeps the image's size; with one, be it 1, it is not padded.
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
    """An average over 3x3, and a convolution by points."""
    return nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=count_padding), *chain(inputs, (outputs, 1)))


def fork(inputs: int, outputs: int, *links: Link) -> nn.Sequential:
    """A chain that ends in two: 1x3 and 3x1, of `outputs` channels each."""
    last = links[-1][0]
    return nn.Sequential(
        chain(inputs, *links), Branches([chain(last, (outputs, (1, 3))), chain(last, (outputs, (3, 1)))])
    )
