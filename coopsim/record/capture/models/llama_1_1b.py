"""A Llama of 1.1 billion parameters, as TinyLlama: rotary positions, grouped queries, gated feed-forward layers."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

TOKENS = 1024
PARAMETERS = 1_100_048_384  # of the released TinyLlama-1.1B


def build(setting: Setting) -> Callable[[], object]:
    """Build the model; a step trains on `batch` texts of 1024 tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from coopsim.record.capture.models._step import build_language_model

    config = LlamaConfig(
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=22,
        num_attention_heads=32,
        num_key_value_heads=4,
        use_cache=False,
        attn_implementation=setting.attention,  # type: ignore[call-arg]
    )
    return build_language_model(setting, lambda: LlamaForCausalLM(config), PARAMETERS, TOKENS)


MODEL = Model(
    name="llama-1.1b",
    title="Llama of 1.1 billion parameters, 22 layers of 2048, 1024 tokens",
    batch=4,
    source="Zhang et al. 2024 (TinyLlama); batch and 1024 tokens ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    attention="eager",
    details={"tokens": TOKENS},
)
