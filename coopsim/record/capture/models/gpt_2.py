"""GPT-2 small."""

from functools import partial

from coopsim.record.capture.models import _gpt
from coopsim.record.capture.models._model import Model

SEQUENCE = 512
PARAMETERS = 124_439_808  # of the released gpt2, the head's weight tied to the word embeddings

MODEL = Model(
    name="gpt-2",
    title="GPT-2 small, 12 layers of 768, 512 tokens",
    batch=8,
    source="Radford et al. 2019 (model); batch 8 of 512 tokens as in Coop's scripts of 2023, whose GPT-2 is smaller "
    "(6 layers of 384)",
    build=partial(
        _gpt.build, sequence=SEQUENCE, parameters=PARAMETERS, n_layer=12, n_embd=768, n_head=12, n_positions=1024
    ),
    attention="eager",
    details={"sequence": SEQUENCE, "dropout": _gpt.DROPOUT},
)
