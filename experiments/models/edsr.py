"""EDSR-baseline, which doubles an image's size: residual blocks without any norm, all of them at full resolution.

The shift by the mean colour is left out: two fixed convolutions of 12 numbers in EDSR-PyTorch, here, as in the paper,
part of what is done to the images beforehand.
"""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

PIXELS, SCALE = 96, 2
WIDTH, BLOCKS = 64, 16
PARAMETERS = 1_369_859  # EDSR-PyTorch's baseline for x2 (1.37 M), without the 24 fixed numbers that shift by the mean


def network() -> Any:
    """As EDSR-PyTorch: sums are made in place. The mean colour is taken off beforehand, as the paper says."""
    import torch
    from torch import nn

    def convolve(inputs: int, outputs: int) -> nn.Conv2d:
        return nn.Conv2d(inputs, outputs, 3, padding=1)

    class Residual(nn.Module):
        def __init__(self, *layers: nn.Module) -> None:
            super().__init__()
            self.layers = nn.Sequential(*layers)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.layers(x)
            y += x
            return y

    blocks = (Residual(convolve(WIDTH, WIDTH), nn.ReLU(inplace=True), convolve(WIDTH, WIDTH)) for _ in range(BLOCKS))
    return nn.Sequential(
        convolve(3, WIDTH),
        Residual(*blocks, convolve(WIDTH, WIDTH)),
        convolve(WIDTH, SCALE**2 * WIDTH),
        nn.PixelShuffle(SCALE),
        convolve(WIDTH, 3),
    )


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` patches of 96x96, each with one of 192x192 to come near to."""
    import torch
    from torch.nn import functional

    from coopsim.record.capture.models._step import check_parameters, training_step

    with torch.device("cuda"):
        model = network().train()
        small = torch.ones(setting.batch, 3, PIXELS, PIXELS)
        large = torch.ones(setting.batch, 3, SCALE * PIXELS, SCALE * PIXELS)
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: functional.l1_loss(model(small), large))


MODEL = Model(
    name="edsr",
    title="EDSR-baseline, 16 blocks of 64 channels, 96x96 patches to 192x192",
    batch=96,
    source="Lim et al. 2017, the baseline as EDSR-PyTorch (model, without the shift by the mean colour; L1 loss); "
    "batch and patches ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "scale": SCALE},
)
step = MODEL.step
