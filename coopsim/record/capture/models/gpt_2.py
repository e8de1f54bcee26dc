"""GPT-2 small."""

from collections.abc import Callable
from functools import partial
from typing import Any

from coopsim.record.capture.models._model import Model, Setting

VOCABULARY = 50257
DROPOUT = 0.1
SEQUENCE = 512
PARAMETERS = 124_439_808  # of the released gpt2, the head's weight tied to the word embeddings


def build(setting: Setting, sequence: int, parameters: int, **shape: Any) -> Callable[[], object]:
    """Build a model of the GPT-2 and GPT-3 family (Radford et al. 2019, Brown et al. 2020), from transformers.

    A step trains on `batch` texts of `sequence` tokens. `shape`: arguments of GPT2Config. GPT-3 alternates dense and
    banded sparse attention; here, as in most reproductions of it, all of it is dense.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    from coopsim.record.capture.models._step import build_language_model

    config = GPT2Config(
        vocab_size=VOCABULARY,
        embd_pdrop=DROPOUT,
        attn_pdrop=DROPOUT,
        resid_pdrop=DROPOUT,
        use_cache=False,
        attn_implementation=setting.attention,  # type: ignore[call-arg]
        **shape,
    )
    return build_language_model(setting, lambda: GPT2LMHeadModel(config), parameters, sequence)


MODEL = Model(
    name="gpt-2",
    title="GPT-2 small, 12 layers of 768, 512 tokens",
    batch=8,
    source="Radford et al. 2019 (model); batch 8 of 512 tokens as in Coop's scripts of 2023, whose GPT-2 is smaller "
    "(6 layers of 384)",
    build=partial(build, sequence=SEQUENCE, parameters=PARAMETERS, n_layer=12, n_embd=768, n_head=12, n_positions=1024),
    attention="eager",
    details={"sequence": SEQUENCE, "dropout": DROPOUT},
)
