"""Residual networks with bottlenecks (He et al. 2016), the stride in the 3x3 convolution, as torchvision has them.

From transformers; its ReLUs are set to in-place, as those of torchvision and flowvision are.
"""

from collections.abc import Callable

from coopsim.record.capture.models._model import Setting

PIXELS = 224


def build(setting: Setting, depths: tuple[int, int, int, int], parameters: int) -> Callable[[], object]:
    """Build the model; a step trains on `batch` images. `depths` are the numbers of blocks in the four stages."""
    from transformers import ResNetConfig, ResNetForImageClassification

    from coopsim.record.capture.models._images import CLASSES, build_classifier
    from coopsim.record.capture.models._step import in_place

    config = ResNetConfig(depths=list(depths), num_labels=CLASSES)  # type: ignore[call-arg]
    return build_classifier(setting, lambda: in_place(ResNetForImageClassification(config)), parameters, PIXELS)
