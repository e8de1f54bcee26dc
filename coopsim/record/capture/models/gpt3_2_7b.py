"""A language model of GPT-3's shape, 2.7 billion parameters (the script of Coop's authors: about 6.6 billion)."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import language_model
from coopsim.record.capture.models.gpt_2 import DROPOUT, FAMILY

SEQUENCE = 1024
#: From the paper's table 2.1 (32 layers of 2560, 2048 positions; "2.65B" there) with biases, norms and tied head.
PARAMETERS = 2_651_553_280

MODEL = Model(
    name="gpt3-2.7b",
    title="GPT-3 style 2.7B, 32 layers of 2560, 1024 tokens",
    batch=2,
    source="Brown et al. 2020 (model, all attention dense); batch 2 of 1024 tokens and SGD as in Coop (NeurIPS 2023), "
    "whose script has a hidden size of 4096",
    build=language_model(
        "GPT2", "LMHeadModel", PARAMETERS, SEQUENCE, n_layer=32, n_embd=2560, n_head=32, n_positions=2048, **FAMILY
    ),
    attention="eager",
    details={"sequence": SEQUENCE, "dropout": DROPOUT},
)
