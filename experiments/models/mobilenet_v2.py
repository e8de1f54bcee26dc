"""MobileNetV2 on ImageNet-sized images: depthwise convolutions between narrow layers."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
DROPOUT = 0.2
PARAMETERS = 3_504_872  # torchvision's mobilenet_v2


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images, in train mode."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    from coopsim.record.capture.models._step import CLASSES, build_classifier

    config = MobileNetV2Config(
        image_size=PIXELS,
        tf_padding=False,
        classifier_dropout_prob=DROPOUT,
        num_labels=CLASSES,  # type: ignore[call-arg]
    )
    return build_classifier(setting, lambda: MobileNetV2ForImageClassification(config), PARAMETERS, PIXELS)


MODEL = Model(
    name="mobilenet-v2",
    title="MobileNetV2, 224x224 images",
    batch=128,
    source="Sandler et al. 2018 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "dropout": DROPOUT},
)
step = MODEL.step
