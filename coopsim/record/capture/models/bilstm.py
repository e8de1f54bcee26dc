"""BiLSTM, unrolled to one cell per position, because a fused op leaves nothing to evict.

The script of Coop's authors is not published: one layer (which needs about their largest budget, 8.5 GB) and two
classes are assumptions.
"""

from functools import partial

from coopsim.record.capture.models import _bilstm
from coopsim.record.capture.models._model import Model

MODEL = Model(
    name="bilstm",
    title="bidirectional LSTM of 256, 128 steps, a cell for each",
    batch=2048,
    source="Hochreiter and Schmidhuber 1997, Schuster and Paliwal 1997 (model); "
    "batch 2048, input 100, hidden 256, sequence 128 and SGD as in Coop (NeurIPS 2023)",
    build=partial(_bilstm.build, fused=False),
    details=_bilstm.DETAILS,
)
