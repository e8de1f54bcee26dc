"""Language models of the GPT-2 and GPT-3 family (Radford et al. 2019, Brown et al. 2020), from transformers.

GPT-3 alternates dense and banded sparse attention; here, as in most reproductions of it, all of it is dense.
"""

from collections.abc import Callable
from typing import Any

from coopsim.capture.models._model import Setting

VOCABULARY = 50257
DROPOUT = 0.1


def build(setting: Setting, sequence: int, parameters: int, **shape: Any) -> Callable[[], object]:
    """One step on `batch` texts of `sequence` tokens, each to predict the next. `shape` is GPT2Config's."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from coopsim.capture.models._step import check_parameters, training_step

    config = GPT2Config(
        vocab_size=VOCABULARY,
        embd_pdrop=DROPOUT,
        attn_pdrop=DROPOUT,
        resid_pdrop=DROPOUT,
        use_cache=False,
        attn_implementation=setting.attention,  # type: ignore[call-arg]
        **shape,
    )
    with torch.device("cuda"):
        model = GPT2LMHeadModel(config).train()
        tokens = torch.ones(setting.batch, sequence, dtype=torch.long)
    check_parameters(model, parameters)
    return training_step(setting, model, lambda: model(input_ids=tokens, labels=tokens).loss)
