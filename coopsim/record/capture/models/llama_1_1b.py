"""A Llama of 1.1 billion parameters, as TinyLlama: rotary positions, grouped queries, gated feed-forward layers."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import language_model

TOKENS = 1024
PARAMETERS = 1_100_048_384  # of the released TinyLlama-1.1B

MODEL = Model(
    name="llama-1.1b",
    title="Llama of 1.1 billion parameters, 22 layers of 2048, 1024 tokens",
    batch=4,
    source="Zhang et al. 2024 (TinyLlama); batch and 1024 tokens ours, SGD as in Coop (NeurIPS 2023)",
    build=language_model(
        "Llama",
        "ForCausalLM",
        PARAMETERS,
        TOKENS,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=22,
        num_attention_heads=32,
        num_key_value_heads=4,
        use_cache=False,
    ),
    attention="eager",
    details={"tokens": TOKENS},
)
