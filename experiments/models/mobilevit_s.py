"""MobileViT-S: convolutions, and transformers over patches between them."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 256
DROPOUT = 0.1
PARAMETERS = 5_578_632  # of the released mobilevit-small


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images, in train mode."""
    from transformers import MobileViTConfig, MobileViTForImageClassification

    from coopsim.record.capture.models._step import CLASSES, build_classifier

    config = MobileViTConfig(
        image_size=PIXELS,
        classifier_dropout_prob=DROPOUT,
        num_labels=CLASSES,  # type: ignore[call-arg]
    )
    return build_classifier(setting, lambda: MobileViTForImageClassification(config), PARAMETERS, PIXELS)


MODEL = Model(
    name="mobilevit-s",
    title="MobileViT-S, 256x256 images",
    batch=64,
    source="Mehta and Rastegari 2022 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "dropout": DROPOUT},
)
step = MODEL.step
