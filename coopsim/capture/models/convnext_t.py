"""ConvNeXt-Tiny on ImageNet-sized images, with the stochastic depth of its paper."""

from collections.abc import Callable

from coopsim.capture.models._model import Model, Setting

PIXELS = 224
DROP_PATH = 0.1
PARAMETERS = 28_589_128  # torchvision's convnext_tiny


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images, in train mode (whole residual branches dropped per image)."""
    import torch
    from transformers import ConvNextConfig, ConvNextForImageClassification

    from coopsim.capture.models._images import CLASSES, classify
    from coopsim.capture.models._step import check_parameters

    config = ConvNextConfig(
        image_size=PIXELS,
        drop_path_rate=DROP_PATH,
        num_labels=CLASSES,  # type: ignore[call-arg]
    )
    with torch.device("cuda"):
        model = ConvNextForImageClassification(config).train()
    check_parameters(model, PARAMETERS)
    return classify(setting, model, PIXELS)


MODEL = Model(
    name="convnext-t",
    title="ConvNeXt-Tiny, 224x224 images",
    batch=96,
    source="Liu et al. 2022 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "drop_path": DROP_PATH},
)
