"""A bidirectional LSTM of one layer over a batch of sequences, with a linear classifier on its last states.

The numbers are those of Coop's experiments, whose script is not published. One layer, with which it needs about the
8.5 GB of their largest budget for it, and two classes are our choices.
"""

from collections.abc import Callable

from coopsim.record.capture.models._model import Setting

SEQUENCE, INPUT, HIDDEN, CLASSES = 128, 100, 256, 2
PARAMETERS = 733_184 + 2 * HIDDEN * CLASSES + CLASSES  # torch.nn.LSTM(100, 256, bidirectional=True), and the classifier
DETAILS = {"sequence": SEQUENCE, "input": INPUT, "hidden": HIDDEN}


def build(setting: Setting, *, fused: bool) -> Callable[[], object]:
    """Build the model; a step trains on `batch` sequences. `fused`: by one op of cuDNN, else by cells."""
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

    class Unrolled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.directions = nn.ModuleList(nn.LSTMCell(INPUT, HIDDEN) for _ in range(2))
            self.classify = nn.Linear(2 * HIDDEN, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            last = []
            for cell, steps in zip(self.directions, (range(len(x)), reversed(range(len(x)))), strict=True):
                state = x.new_zeros(x.size(1), HIDDEN), x.new_zeros(x.size(1), HIDDEN)
                for i in steps:
                    state = cell(x[i], state)
                last.append(state[0])
            logits: torch.Tensor = self.classify(torch.cat(last, 1))
            return logits

    with torch.device("cuda"):
        model = (Fused() if fused else Unrolled()).train()
        sequences = torch.ones(SEQUENCE, setting.batch, INPUT)
        labels = torch.ones(setting.batch, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: functional.cross_entropy(model(sequences), labels))
