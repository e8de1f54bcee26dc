"""CLIP ViT-B/32: pictures and texts, told apart by how near they are."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

PIXELS, TOKENS = 224, 77
PARAMETERS = 151_277_313  # of the released ViT-B/32


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` pictures of 7x7 patches and a class token, and as many texts of 77 tokens."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    from coopsim.record.capture.models._step import check_parameters, training_step

    config = CLIPConfig(attn_implementation=setting.attention)  # type: ignore[call-arg]
    with torch.device("cuda"):
        model = CLIPModel(config).train()
        pictures = torch.ones(setting.batch, 3, PIXELS, PIXELS)
        tokens = torch.ones(setting.batch, TOKENS, dtype=torch.long)
    check_parameters(model, PARAMETERS)
    return training_step(setting, model, lambda: model(input_ids=tokens, pixel_values=pictures, return_loss=True).loss)


MODEL = Model(
    name="clip-b32",
    title="CLIP ViT-B/32, 224x224 pictures and 77 tokens",
    batch=128,
    source="Radford et al. 2021 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    attention="eager",
    details={"pixels": PIXELS, "tokens": TOKENS},
)
step = MODEL.step
