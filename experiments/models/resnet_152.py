"""ResNet-152 on ImageNet-sized images."""

from functools import partial

from coopsim.record.capture.models import resnet_50
from coopsim.record.capture.models._model import Model

PARAMETERS = 60_192_808  # torchvision's resnet152

MODEL = Model(
    name="resnet-152",
    title="ResNet-152, 224x224 images",
    batch=55,
    source="He et al. 2016 (model); batch 55 and SGD as in Coop's first experiments (2022)",
    build=partial(resnet_50.build, depths=(3, 8, 36, 3), parameters=PARAMETERS),
    details={"pixels": resnet_50.PIXELS},
)
step = MODEL.step
