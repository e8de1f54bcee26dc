"""ConvNeXt-Tiny on ImageNet-sized images, with the stochastic depth of its paper."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
DROP_PATH = 0.1
PARAMETERS = 28_589_128  # torchvision's convnext_tiny


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images, in train mode (whole residual branches dropped per image)."""
    from transformers import ConvNextConfig, ConvNextForImageClassification

    from coopsim.record.capture.models._step import CLASSES, build_classifier

    config = ConvNextConfig(
        image_size=PIXELS,
        drop_path_rate=DROP_PATH,
        num_labels=CLASSES,  # type: ignore[call-arg]
    )
    return build_classifier(setting, lambda: ConvNextForImageClassification(config), PARAMETERS, PIXELS)


MODEL = Model(
    name="convnext-t",
    title="ConvNeXt-Tiny, 224x224 images",
    batch=96,
    source="Liu et al. 2022 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "drop_path": DROP_PATH},
)
step = MODEL.step
