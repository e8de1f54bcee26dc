"""Swin-T on ImageNet-sized images, with the stochastic depth of its paper (the script of Coop's authors: Swin-B)."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
DROP_PATH = 0.2
PARAMETERS = 28_288_354  # torchvision's swin_t


def build(setting: Setting) -> Callable[[], object]:
    """Build the model; a step trains on `batch` images, and drops whole residual branches per image."""
    from transformers import SwinConfig, SwinForImageClassification

    from coopsim.record.capture.models._step import CLASSES, build_classifier

    config = SwinConfig(
        image_size=PIXELS,
        embed_dim=96,
        depths=[2, 2, 6, 2],
        num_heads=[3, 6, 12, 24],
        window_size=7,
        drop_path_rate=DROP_PATH,
        num_labels=CLASSES,  # type: ignore[call-arg]
        attn_implementation=setting.attention,
    )
    return build_classifier(setting, lambda: SwinForImageClassification(config), PARAMETERS, PIXELS)


MODEL = Model(
    name="swin-t",
    title="Swin-T, 224x224 images",
    batch=40,
    source="Liu et al. 2021 (model); batch 40 and SGD as in Coop (NeurIPS 2023), "
    "whose script trains Swin-B by that name",
    build=build,
    attention="eager",
    details={"pixels": PIXELS, "drop_path": DROP_PATH},
)
