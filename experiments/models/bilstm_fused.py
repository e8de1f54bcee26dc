"""The reference model `bilstm` as one op of cuDNN."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting
from coopsim.record.capture.models.bilstm import CLASSES, DETAILS, HIDDEN, INPUT, PARAMETERS, SEQUENCE


def build(setting: Setting) -> Callable[[], object]:
    """Build the model; a step trains on `batch` sequences."""
    import torch
    from torch import nn
    from torch.nn import functional

    from coopsim.record.capture.models._step import check_parameters, training_step

    class Fused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(INPUT, HIDDEN, bidirectional=True)
            self.classify = nn.Linear(2 * HIDDEN, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            _, (last, _) = self.lstm(x)
            logits: torch.Tensor = self.classify(torch.cat([last[0], last[1]], 1))
            return logits

    with torch.device("cuda"):
        model = Fused().train()
        sequences = torch.ones(SEQUENCE, setting.batch, INPUT)
        labels = torch.ones(setting.batch, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: functional.cross_entropy(model(sequences), labels))


MODEL = Model(
    name="bilstm-fused",
    title="bidirectional LSTM of 256, 128 steps in one op of cuDNN",
    batch=2048,
    source="as bilstm, which is Coop's setting; fused as torch.nn.LSTM is on a GPU",
    build=build,
    details=DETAILS,
)
step = MODEL.step
