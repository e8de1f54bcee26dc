"""BART-base: an encoder and a decoder, norms after each layer, dropout in all of them."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

READ, WRITTEN = 512, 256  # tokens
DROPOUT = 0.1
PARAMETERS = 139_420_416  # of the released bart-base


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` texts of 512 tokens, each with one of 256 tokens to write."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    from coopsim.record.capture.models._step import check_parameters, training_step

    config = BartConfig(
        d_model=768,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        dropout=DROPOUT,
        attention_dropout=DROPOUT,
        activation_dropout=DROPOUT,
        use_cache=False,
        attn_implementation=setting.attention,  # type: ignore[call-arg]
    )
    with torch.device("cuda"):
        model = BartForConditionalGeneration(config).train()
        tokens = torch.ones(setting.batch, READ, dtype=torch.long)
        labels = torch.ones(setting.batch, WRITTEN, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: model(input_ids=tokens, labels=labels).loss)


MODEL = Model(
    name="bart-base",
    title="BART-base, 6 + 6 layers of 768, 512 tokens read and 256 written",
    batch=8,
    source="Lewis et al. 2020 (model); batch and 256 tokens written ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    attention="eager",
    details={"read": READ, "written": WRITTEN, "dropout": DROPOUT},
)
step = MODEL.step
