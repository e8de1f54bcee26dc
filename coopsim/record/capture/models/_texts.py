"""Build language models. Imports torch, so that only a model's `build` may import it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from coopsim.record.capture.models._model import Setting
from coopsim.record.capture.models._step import check_parameters, training_step

VOCABULARY = 50257
DROPOUT = 0.1


def build_language_model(
    setting: Setting, network: Callable[[], nn.Module], parameters: int, length: int
) -> Callable[[], None]:
    """Build a language model; a step trains on `batch` texts of `length` tokens, which are their own labels.

    The loss is transformers' own. `network` makes the model, which must have `parameters` parameters, and is put into
    train mode.
    """
    with torch.device("cuda"):
        model = network().train()
        tokens = torch.ones(setting.batch, length, dtype=torch.long)
    check_parameters(model, parameters)
    return training_step(setting, model, lambda: model(input_ids=tokens, labels=tokens).loss)


def build_gpt(setting: Setting, sequence: int, parameters: int, **shape: Any) -> Callable[[], object]:
    """Build a model of the GPT-2 and GPT-3 family (Radford et al. 2019, Brown et al. 2020), from transformers.

    A step trains on `batch` texts of `sequence` tokens. `shape`: arguments of GPT2Config. GPT-3 alternates dense and
    banded sparse attention; here, as in most reproductions of it, all of it is dense.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

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
