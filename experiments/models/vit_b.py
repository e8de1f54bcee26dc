"""ViT-B/16 on ImageNet-sized images."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
PARAMETERS = 86_567_656  # torchvision's vit_b_16


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images of 14x14 patches and a class token."""
    from transformers import ViTConfig, ViTForImageClassification

    from coopsim.record.capture.models._step import CLASSES, build_classifier

    config = ViTConfig(
        image_size=PIXELS,
        num_labels=CLASSES,  # type: ignore[call-arg]
        attn_implementation=setting.attention,
    )
    return build_classifier(setting, lambda: ViTForImageClassification(config), PARAMETERS, PIXELS)


MODEL = Model(
    name="vit-b",
    title="ViT-B/16, 224x224 images",
    batch=64,
    source="Dosovitskiy et al. 2021 (model, without dropout); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    attention="eager",
    details={"pixels": PIXELS},
)
step = MODEL.step
