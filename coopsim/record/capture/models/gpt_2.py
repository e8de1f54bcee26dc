"""GPT-2 small."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import language_model

DROPOUT = 0.1
SEQUENCE = 512
PARAMETERS = 124_439_808  # of the released gpt2, the head's weight tied to the word embeddings

#: Of the GPT-2 and GPT-3 family (Radford et al. 2019, Brown et al. 2020). GPT-3 alternates dense and banded sparse
#: attention; here, as in most reproductions of it, all of it is dense.
FAMILY = {
    "vocab_size": 50257,
    "embd_pdrop": DROPOUT,
    "attn_pdrop": DROPOUT,
    "resid_pdrop": DROPOUT,
    "use_cache": False,
}

MODEL = Model(
    name="gpt-2",
    title="GPT-2 small, 12 layers of 768, 512 tokens",
    batch=8,
    source="Radford et al. 2019 (model); batch 8 of 512 tokens as in Coop's scripts of 2023, whose GPT-2 is smaller "
    "(6 layers of 384)",
    build=language_model(
        "GPT2", "LMHeadModel", PARAMETERS, SEQUENCE, n_layer=12, n_embd=768, n_head=12, n_positions=1024, **FAMILY
    ),
    attention="eager",
    details={"sequence": SEQUENCE, "dropout": DROPOUT},
)
