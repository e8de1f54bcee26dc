"""ALBERT-base: one layer's parameters, used twelve times; masked words. Its second version has no dropout."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import language_model

SEQUENCE = 512
PARAMETERS = 11_221_680  # of albert-base-v2 as published, with a head for masked words and without the pooler

MODEL = Model(
    name="albert-base",
    title="ALBERT-base v2, 12 layers of 768 that share their parameters, 512 tokens",
    batch=16,
    source="Lan et al. 2020, albert-base-v2 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=language_model(
        "Albert",
        "ForMaskedLM",
        PARAMETERS,
        SEQUENCE,
        vocab_size=30000,
        embedding_size=128,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        max_position_embeddings=SEQUENCE,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    ),
    attention="eager",
    details={"sequence": SEQUENCE},
)
step = MODEL.step
