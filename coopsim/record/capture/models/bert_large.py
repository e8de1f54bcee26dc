"""BERT-Large for pre-training (masked words and next sentence), as papers on rematerialisation train it."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

SEQUENCE = 512
VOCABULARY = 30522
DROPOUT = 0.1
PARAMETERS = 336_226_108  # with the decoder's weight tied to the word embeddings


def build(setting: Setting) -> Callable[[], object]:
    """Build the model; a step trains on `batch` texts of 512 tokens."""
    import torch
    from transformers import BertConfig, BertForPreTraining

    from coopsim.record.capture.models._step import check_parameters, training_step

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        max_position_embeddings=SEQUENCE,
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
        attn_implementation=setting.attention,  # type: ignore[call-arg]
    )
    with torch.device("cuda"):
        model = BertForPreTraining(config).train()
        tokens = torch.ones(setting.batch, SEQUENCE, dtype=torch.long)
        words = tokens.clone()
        follows = torch.zeros(setting.batch, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    return training_step(
        setting, model, lambda: model(input_ids=tokens, labels=words, next_sentence_label=follows).loss
    )


MODEL = Model(
    name="bert-large",
    title="BERT-Large pre-training, 24 layers of 1024, 512 tokens",
    batch=16,
    source="Devlin et al. 2019 (model); batch 16 of 512 tokens and SGD as in Coop (NeurIPS 2023)",
    build=build,
    attention="eager",
    details={"sequence": SEQUENCE, "dropout": DROPOUT},
)
