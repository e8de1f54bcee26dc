"""BERT-Large for pre-training (masked words and next sentence), as papers on rematerialisation train it."""

from collections.abc import Callable

from coopsim.capture.models._model import Model

SEQUENCE = 512
VOCABULARY = 30522
PARAMETERS = 336_226_108  # with the decoder's weight tied to the word embeddings


def build(batch: int) -> Callable[[], object]:
    """One step on `batch` texts of 512 tokens, in train mode (dropout 0.1)."""
    import torch
    from transformers import BertConfig, BertForPreTraining

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        max_position_embeddings=SEQUENCE,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        attn_implementation="eager",  # type: ignore[call-arg]
    )
    with torch.device("cuda"):
        model = BertForPreTraining(config).train()
        tokens = torch.ones(batch, SEQUENCE, dtype=torch.long)
        words = tokens.clone()
        follows = torch.zeros(batch, dtype=torch.long)
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0, foreach=False)

    def step() -> None:
        model(input_ids=tokens, labels=words, next_sentence_label=follows).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


MODEL = Model(
    name="bert-large",
    title="BERT-Large pre-training, 24 layers of 1024, 512 tokens",
    batch=16,
    source="Devlin et al. 2019 (model); batch 16 of 512 tokens and SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={
        "sequence": SEQUENCE,
        "optimizer": "SGD lr=0.001 momentum=0 foreach=False",
        "attention": "eager",
        "dropout": 0.1,
    },
)
