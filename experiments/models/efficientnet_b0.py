"""EfficientNet-B0 on ImageNet-sized images."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
DROPOUT = 0.2
PARAMETERS = 5_288_548  # torchvision's efficientnet_b0


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images, in train mode."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    from coopsim.record.capture.models._step import CLASSES, build_classifier

    config = EfficientNetConfig(
        image_size=PIXELS,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        hidden_dim=1280,
        dropout_rate=DROPOUT,
        num_labels=CLASSES,  # type: ignore[call-arg]
    )
    return build_classifier(setting, lambda: EfficientNetForImageClassification(config), PARAMETERS, PIXELS)


MODEL = Model(
    name="efficientnet-b0",
    title="EfficientNet-B0, 224x224 images",
    batch=128,
    source="Tan and Le 2019 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "dropout": DROPOUT},
)
step = MODEL.step
