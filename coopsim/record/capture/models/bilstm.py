"""A bidirectional LSTM, one cell per position, over a batch of sequences, with a classifier on its last states.

The numbers are those of Coop's experiments, whose script is not published. One layer, with which it needs about the
8.5 GB of their largest budget for it, and two classes are our choices. A fused op would leave nothing to evict
(experiments/models/bilstm_fused.py).
"""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

SEQUENCE, INPUT, HIDDEN, CLASSES = 128, 100, 256, 2
PARAMETERS = 733_184 + 2 * HIDDEN * CLASSES + CLASSES  # torch.nn.LSTM(100, 256, bidirectional=True), and the classifier
DETAILS = {"sequence": SEQUENCE, "input": INPUT, "hidden": HIDDEN}


def build(setting: Setting) -> Callable[[], object]:
    """Build the model; a step trains on `batch` sequences."""
    import torch
    from torch import nn
    from torch.nn import functional

    from coopsim.record.capture.models._step import check_parameters, training_step

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
        model = Unrolled().train()
        sequences = torch.ones(SEQUENCE, setting.batch, INPUT)
        labels = torch.ones(setting.batch, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: functional.cross_entropy(model(sequences), labels))


MODEL = Model(
    name="bilstm",
    title="bidirectional LSTM of 256, 128 steps, a cell for each",
    batch=2048,
    source="Hochreiter and Schmidhuber 1997, Schuster and Paliwal 1997 (model); "
    "batch 2048, input 100, hidden 256, sequence 128 and SGD as in Coop (NeurIPS 2023)",
    build=build,
    details=DETAILS,
)
