"""SegFormer-B0 with its decoder for ADE20K: attention in four sizes of image, and a class for every pixel."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Attention, Model, Setting

PIXELS, CLASSES = 512, 150
# of each of the four stages: channels, heads, kernel and stride of its patches, how much smaller the image looked at is
STAGES = ((32, 1, 7, 4, 8), (64, 2, 3, 2, 4), (160, 5, 3, 2, 2), (256, 8, 3, 2, 1))
LAYERS, DECODED = 2, 256  # of each stage; channels of the decoder
DROPOUT, DROP_PATH = 0.1, 0.1
PARAMETERS = 3_752_694  # of the released segformer-b0-finetuned-ade-512-512


def network(attention: Attention | None) -> Any:
    """Mix Transformer B0, whose patches overlap, and the decoder: its four outputs joined at the first one's size."""
    import torch
    from _attention import Heads
    from torch import nn
    from torch.nn import functional

    def tokens(x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).transpose(1, 2)

    def image(x: torch.Tensor) -> torch.Tensor:
        side = int(x.size(1) ** 0.5)
        return x.transpose(1, 2).reshape(len(x), -1, side, side)

    class Layer(nn.Module):
        def __init__(self, width: int, heads: int, smaller: int, drop: float) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Heads(width, heads, attention)
            self.reduce = nn.Conv2d(width, width, smaller, smaller) if smaller > 1 else None
            self.reduced = nn.LayerNorm(width) if smaller > 1 else None
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.near = nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width)
            self.kept = 1 - drop

        def dropped(self, branch: torch.Tensor) -> torch.Tensor:
            """The whole branch, per image, is left out or counts more."""
            if self.kept == 1:
                return branch
            return branch * branch.new_empty(len(branch), 1, 1).bernoulli_(self.kept).div_(self.kept)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            normed = self.before(x)
            seen = normed
            if self.reduce is not None and self.reduced is not None:
                seen = self.reduced(tokens(self.reduce(image(normed))))
            x = x + self.dropped(self.attention(normed, seen))
            wide = tokens(self.near(image(self.up(self.after(x)))))
            return x + self.dropped(self.down(functional.gelu(wide)))

    class Stage(nn.Module):
        def __init__(self, number: int) -> None:
            super().__init__()
            width, heads, kernel, stride, smaller = STAGES[number]
            self.patches = nn.Conv2d(STAGES[number - 1][0] if number else 3, width, kernel, stride, kernel // 2)
            self.first, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
            drops = [DROP_PATH * (number * LAYERS + i) / (len(STAGES) * LAYERS - 1) for i in range(LAYERS)]
            self.layers = nn.Sequential(*(Layer(width, heads, smaller, drop) for drop in drops))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.last(self.layers(self.first(tokens(self.patches(x)))))
            return image(x).contiguous()  # the published code copies here, too

    class SegFormer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stages = nn.ModuleList(map(Stage, range(len(STAGES))))
            self.widen = nn.ModuleList(nn.Linear(width, DECODED) for width, *_ in STAGES)
            fuse = nn.Conv2d(len(STAGES) * DECODED, DECODED, 1, bias=False)
            self.fuse = nn.Sequential(fuse, nn.BatchNorm2d(DECODED), nn.ReLU(), nn.Dropout(DROPOUT))
            self.classify = nn.Conv2d(DECODED, CLASSES, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            levels: list[torch.Tensor] = []
            for stage, widen in zip(self.stages, self.widen, strict=True):
                x = stage(x)
                level = image(widen(tokens(x)))
                size = levels[0].shape[2:] if levels else level.shape[2:]
                levels.append(functional.interpolate(level, size, mode="bilinear"))
            logits: torch.Tensor = self.classify(self.fuse(torch.cat(levels[::-1], 1)))
            return functional.interpolate(logits, (PIXELS, PIXELS), mode="bilinear")

    return SegFormer()


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images, a class for each pixel (whole residual branches dropped per image)."""
    import torch
    from torch.nn import functional

    from coopsim.record.capture.models._step import check_parameters, training_step

    with torch.device("cuda"):
        model = network(setting.attention).train()
        images = torch.ones(setting.batch, 3, PIXELS, PIXELS)
        labels = torch.ones(setting.batch, PIXELS, PIXELS, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: functional.cross_entropy(model(images), labels, ignore_index=255))


MODEL = Model(
    name="segformer-b0",
    title="SegFormer-B0, 512x512 images, 150 classes",
    batch=16,
    source="Xie et al. 2021 (model, batch 16 for ADE20K); SGD as in Coop (NeurIPS 2023)",
    build=build,
    attention="eager",
    details={"pixels": PIXELS, "dropout": DROPOUT, "drop_path": DROP_PATH},
)
step = MODEL.step
