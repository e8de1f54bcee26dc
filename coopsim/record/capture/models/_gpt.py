"""Language models of the GPT-2 and GPT-3 family (Radford et al. 2019, Brown et al. 2020), from transformers.

GPT-3 alternates dense and banded sparse attention; here, as in most reproductions of it, all of it is dense.
"""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Setting

VOCABULARY = 50257
DROPOUT = 0.1


def build(setting: Setting, sequence: int, parameters: int, **shape: Any) -> Callable[[], object]:
    """Build the model; a step trains on `batch` texts of `sequence` tokens. `shape`: arguments of GPT2Config."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from coopsim.record.capture.models._texts import build_language_model

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
