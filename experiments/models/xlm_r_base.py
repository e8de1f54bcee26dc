"""XLM-RoBERTa-base: twelve layers under 250 thousand words of a hundred languages; masked words.

All words are scored for every token, as transformers does: the op that goes back through the softmax alone needs, with
the parameters, 12.5 GiB of the peak's 17.4 GiB. No schedule fits into less.
"""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import language_model

SEQUENCE = 512
DROPOUT = 0.1
PARAMETERS = 278_295_186  # of xlm-roberta-base as published, with its head for masked words and without the pooler

MODEL = Model(
    name="xlm-r-base",
    title="XLM-RoBERTa-base, 12 layers of 768, 250 002 words, 512 tokens",
    batch=8,
    source="Conneau et al. 2020, xlm-roberta-base (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=language_model(
        "XLMRoberta",
        "ForMaskedLM",
        PARAMETERS,
        SEQUENCE,
        vocab_size=250_002,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        max_position_embeddings=SEQUENCE + 2,  # they are counted from behind that of padding, which is 1
        type_vocab_size=1,
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
    ),
    attention="eager",
    details={"sequence": SEQUENCE, "dropout": DROPOUT},
)
step = MODEL.step
