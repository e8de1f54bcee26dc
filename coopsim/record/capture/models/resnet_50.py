"""ResNet-50 on ImageNet-sized images."""

from functools import partial

from coopsim.record.capture.models import _resnet
from coopsim.record.capture.models._model import Model

PARAMETERS = 25_557_032  # torchvision's resnet50

MODEL = Model(
    name="resnet-50",
    title="ResNet-50, 224x224 images",
    batch=115,
    source="He et al. 2016 (model); batch 115 and SGD as in Coop (NeurIPS 2023)",
    build=partial(_resnet.build, depths=(3, 4, 6, 3), parameters=PARAMETERS),
    details={"pixels": _resnet.PIXELS},
)
