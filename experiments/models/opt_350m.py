"""OPT of 350 million parameters: norms after each layer, and words of half the width, projected to it and back."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import language_model

TOKENS = 1024
DROPOUT = 0.1
PARAMETERS = 331_196_416  # of the released opt-350m, the head's weight tied to the word embeddings

MODEL = Model(
    name="opt-350m",
    title="OPT of 350 million parameters, 24 layers of 1024, 1024 tokens",
    batch=4,
    source="Zhang et al. 2022, opt-350m (model); batch and 1024 tokens ours, SGD as in Coop (NeurIPS 2023)",
    build=language_model(
        "OPT",
        "ForCausalLM",
        PARAMETERS,
        TOKENS,
        vocab_size=50272,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        ffn_dim=4096,
        max_position_embeddings=2048,
        word_embed_proj_dim=512,
        do_layer_norm_before=False,
        dropout=DROPOUT,
        attention_dropout=0.0,
        layerdrop=0.0,
        use_cache=False,
    ),
    attention="eager",
    details={"tokens": TOKENS, "dropout": DROPOUT},
)
step = MODEL.step
