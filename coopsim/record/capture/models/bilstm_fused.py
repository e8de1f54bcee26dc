"""The same BiLSTM as one op of cuDNN."""

from functools import partial

from coopsim.record.capture.models import _bilstm
from coopsim.record.capture.models._model import Model

MODEL = Model(
    name="bilstm-fused",
    title="bidirectional LSTM of 256, 128 steps in one op of cuDNN",
    batch=2048,
    source="as bilstm, which is Coop's setting; fused as torch.nn.LSTM is on a GPU",
    build=partial(_bilstm.build, fused=True),
    details=_bilstm.DETAILS,
)
