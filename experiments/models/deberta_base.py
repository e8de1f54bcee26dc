"""DeBERTa-base: attention by content and by relative position, each with its own products; masked words."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

SEQUENCE = 512
DROPOUT = 0.1
PARAMETERS = 139_244_121  # of deberta-base as published, with its head for masked words


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` texts of 512 tokens, in train mode."""
    import torch
    from transformers import DebertaConfig, DebertaForMaskedLM

    from coopsim.record.capture.models._step import check_parameters, training_step

    config = DebertaConfig(
        vocab_size=50265,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        max_position_embeddings=SEQUENCE,
        relative_attention=True,
        pos_att_type="c2p|p2c",
        position_biased_input=False,
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
    )
    with torch.device("cuda"):
        model = DebertaForMaskedLM(config).train()
        tokens = torch.ones(setting.batch, SEQUENCE, dtype=torch.long)
        mask = torch.ones_like(tokens)  # without one, transformers looks for padding, by an index list from the host
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: model(input_ids=tokens, attention_mask=mask, labels=tokens).loss)


MODEL = Model(
    name="deberta-base",
    title="DeBERTa-base, 12 layers of 768, 512 tokens",
    batch=8,
    source="He et al. 2021, deberta-base (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"sequence": SEQUENCE, "dropout": DROPOUT},
)
step = MODEL.step
