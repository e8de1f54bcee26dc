"""Whisper-small: sound, convolved and encoded, and a decoder that writes what was said."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

FRAMES, WRITTEN = 3000, 224  # spectra of 10 ms, tokens
PARAMETERS = 241_734_912  # of the released whisper-small


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` recordings of 30 s, each with 224 tokens to write."""
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    from coopsim.record.capture.models._step import check_parameters, training_step

    config = WhisperConfig(
        vocab_size=51865,
        d_model=768,
        encoder_layers=12,
        decoder_layers=12,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        use_cache=False,
        attn_implementation=setting.attention,  # type: ignore[call-arg]
    )
    with torch.device("cuda"):
        model = WhisperForConditionalGeneration(config).train()
        sound = torch.zeros(setting.batch, config.num_mel_bins, FRAMES)
        labels = torch.ones(setting.batch, WRITTEN, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: model(input_features=sound, labels=labels).loss)


MODEL = Model(
    name="whisper-small",
    title="Whisper-small, 12 + 12 layers of 768, 30 s of sound and 224 tokens written",
    batch=4,
    source="Radford et al. 2023 (model); batch and 224 tokens ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    attention="eager",
    details={"frames": FRAMES, "written": WRITTEN},
)
step = MODEL.step
