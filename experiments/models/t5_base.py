"""T5-base: an encoder and a decoder that reads what the encoder made in every layer."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

READ, WRITTEN = 512, 128  # tokens
DROPOUT = 0.1
PARAMETERS = 222_903_552  # of the released t5-base, all word embeddings tied


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` texts of 512 tokens, each with one of 128 tokens to write."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    from coopsim.record.capture.models._step import check_parameters, training_step

    config = T5Config(
        d_model=768,
        d_ff=3072,
        num_layers=12,
        num_heads=12,
        dropout_rate=DROPOUT,
        use_cache=False,
        decoder_start_token_id=0,  # type: ignore[call-arg]
        attn_implementation=setting.attention,
    )
    with torch.device("cuda"):
        model = T5ForConditionalGeneration(config).train()
        tokens = torch.ones(setting.batch, READ, dtype=torch.long)
        labels = torch.ones(setting.batch, WRITTEN, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: model(input_ids=tokens, labels=labels).loss)


MODEL = Model(
    name="t5-base",
    title="T5-base, 12 + 12 layers of 768, 512 tokens read and 128 written",
    batch=8,
    source="Raffel et al. 2020 (model); batch and 128 tokens written ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    attention="eager",
    details={"read": READ, "written": WRITTEN, "dropout": DROPOUT},
)
step = MODEL.step
