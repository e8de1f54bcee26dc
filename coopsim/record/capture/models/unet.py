"""U-Net with batch norm, as in milesial/Pytorch-UNet, which papers on rematerialisation train."""

import itertools
from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

HEIGHT, WIDTH = 460, 608
CLASSES = 2
PARAMETERS = 31_037_698  # milesial's, 2 classes, transposed convolutions


def network() -> Any:
    """Make the network: four levels down by max pooling and four up by transposed convolutions, 64 to 1024 channels."""
    import torch
    from torch import nn
    from torch.nn import functional

    def twice(inputs: int, outputs: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]
        return nn.Sequential(*layers)

    class Up(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2)
            self.convolutions = twice(inputs, outputs)

        def forward(self, below: torch.Tensor, beside: torch.Tensor) -> torch.Tensor:
            below = self.up(below)
            down, right = (beside.size(i) - below.size(i) for i in (2, 3))
            # even if there is nothing to pad, as the original does, which copies
            below = functional.pad(below, [right // 2, right - right // 2, down // 2, down - down // 2])
            joined: torch.Tensor = self.convolutions(torch.cat([beside, below], 1))
            return joined

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [64, 128, 256, 512, 1024]
            self.first = twice(3, widths[0])
            pairs = list(itertools.pairwise(widths))
            self.down = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), twice(a, b)) for a, b in pairs)
            self.up = nn.ModuleList(Up(b, a) for a, b in reversed(pairs))
            self.last = nn.Conv2d(widths[0], CLASSES, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            levels = [self.first(x)]
            for down in self.down:
                levels.append(down(levels[-1]))
            x = levels.pop()
            for up in self.up:
                x = up(x, levels.pop())
            masks: torch.Tensor = self.last(x)
            return masks

    return UNet()


def build(setting: Setting) -> Callable[[], object]:
    """Build the model; a step trains on `batch` images of 460x608 with a mask for each of two classes."""
    import torch
    from torch.nn import functional

    from coopsim.record.capture.models._step import check_parameters, training_step

    with torch.device("cuda"):
        model = network().train()
        images = torch.ones(setting.batch, 3, HEIGHT, WIDTH)
        masks = torch.ones(setting.batch, CLASSES, HEIGHT, WIDTH)
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: functional.binary_cross_entropy_with_logits(model(images), masks))


MODEL = Model(
    name="unet",
    title="U-Net, 460x608 images, 2 classes",
    batch=5,
    source="Ronneberger et al. 2015 with batch norm, as milesial/Pytorch-UNet (model); "
    "batch 5 of 460x608, BCE with logits and SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"height": HEIGHT, "width": WIDTH},
)
