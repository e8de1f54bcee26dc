"""ResNet-50 on ImageNet-sized images (He et al. 2016), the stride in the 3x3 convolution, as torchvision has it.

From transformers; its ReLUs are set to in-place, as those of torchvision and flowvision are.
"""

from collections.abc import Callable, Sequence

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
PARAMETERS = 25_557_032  # torchvision's resnet50


def build(setting: Setting, depths: Sequence[int] = (3, 4, 6, 3), parameters: int = PARAMETERS) -> Callable[[], object]:
    """Build a ResNet with so many blocks in each stage; a step trains on `batch` images."""
    from transformers import ResNetConfig, ResNetForImageClassification

    from coopsim.record.capture.models._step import CLASSES, build_classifier, in_place

    config = ResNetConfig(depths=list(depths), num_labels=CLASSES)  # type: ignore[call-arg]
    return build_classifier(setting, lambda: in_place(ResNetForImageClassification(config)), parameters, PIXELS)


MODEL = Model(
    name="resnet-50",
    title="ResNet-50, 224x224 images",
    batch=115,
    source="He et al. 2016 (model); batch 115 and SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS},
)
