"""wav2vec 2.0 base, trained to write what is said: convolutions over sound, 12 transformer layers, CTC."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Attention, Model, Setting

SAMPLES, WRITTEN, LETTERS = 250_000, 200, 32  # 15.6 s of 16 kHz; letters of a text; letters that there are
CONVOLUTIONS = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))  # kernels and strides
HEARD, WIDTH, HEADS, LAYERS, INNER = 512, 768, 12, 12, 3072
PLACES, GROUPS = 128, 16  # of the convolution that stands for positions
DROPOUT = 0.1
PARAMETERS = 94_396_320  # of the released wav2vec2-base-960h


def network(attention: Attention | None) -> Any:
    """Norms after each layer. The convolutions over sound are not trained on, as in the paper."""
    import torch
    from _attention import Heads
    from torch import nn
    from torch.nn import functional
    from torch.nn.utils.parametrizations import weight_norm

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.Sequential(Heads(WIDTH, HEADS, attention, DROPOUT), nn.Dropout(DROPOUT))
            inner = nn.Linear(WIDTH, INNER), nn.GELU(), nn.Dropout(DROPOUT)
            self.mlp = nn.Sequential(*inner, nn.Linear(INNER, WIDTH), nn.Dropout(DROPOUT))
            self.between, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.between(x + self.attention(x))
            y: torch.Tensor = self.after(x + self.mlp(x))
            return y

    class Wav2Vec2(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            heard: list[nn.Module] = []
            for i, (kernel, stride) in enumerate(CONVOLUTIONS):
                heard.append(nn.Conv1d(HEARD if i else 1, HEARD, kernel, stride, bias=False))
                heard += [nn.GELU()] if i else [nn.GroupNorm(HEARD, HEARD), nn.GELU()]
            self.heard = nn.Sequential(*heard).requires_grad_(False)
            self.project = nn.Sequential(nn.LayerNorm(HEARD), nn.Linear(HEARD, WIDTH), nn.Dropout(DROPOUT))
            self.masked = nn.Parameter(torch.ones(WIDTH))
            places = nn.Conv1d(WIDTH, WIDTH, PLACES, padding=PLACES // 2, groups=GROUPS)
            self.places = weight_norm(places, dim=2)
            self.norm = nn.Sequential(nn.LayerNorm(WIDTH), nn.Dropout(DROPOUT))
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.classify = nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(WIDTH, LETTERS))

        def forward(self, sound: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            x = self.project(self.heard(sound).transpose(1, 2))
            x = torch.where(mask, self.masked, x)  # no indices, whose number would depend on the mask
            # an even kernel makes one place too many
            x = x + functional.gelu(self.places(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2)
            logits: torch.Tensor = self.classify(self.layers(self.norm(x)))
            return logits

    return Wav2Vec2()


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` recordings of 15.6 s, each with 200 letters to write; of frames some are masked."""
    import torch
    from torch.nn import functional

    from coopsim.record.capture.models._step import check_parameters, training_step

    frames = SAMPLES
    for kernel, stride in CONVOLUTIONS:
        frames = (frames - kernel) // stride + 1
    with torch.device("cuda"):
        model = network(setting.attention).train()
        sound = torch.ones(setting.batch, 1, SAMPLES)
        mask = torch.ones(setting.batch, frames, 1, dtype=torch.bool)
        letters = torch.ones(setting.batch, WRITTEN, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    # numbers of the host: on a phantom GPU a tensor of them would be zeros
    heard, written = (frames,) * setting.batch, (WRITTEN,) * setting.batch

    def loss() -> torch.Tensor:
        chances = model(sound, mask).log_softmax(-1, dtype=torch.float32).transpose(0, 1)
        return functional.ctc_loss(chances, letters, heard, written, reduction="sum")  # type: ignore[arg-type]

    return training_step(setting, model, loss)


MODEL = Model(
    name="wav2vec2-base",
    title="wav2vec 2.0 base with CTC, 12 layers of 768, 15.6 s of sound and 200 letters written",
    batch=8,
    source="Baevski et al. 2020 (model, convolutions not trained; without LayerDrop); batch and 200 letters ours, "
    "SGD as in Coop (NeurIPS 2023)",
    build=build,
    attention="eager",
    details={"samples": SAMPLES, "written": WRITTEN, "dropout": DROPOUT},
)
step = MODEL.step
