"""ConvNeXt-Tiny on ImageNet-sized images, with the stochastic depth of its paper."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import classifier

PIXELS = 224
DROP_PATH = 0.1
PARAMETERS = 28_589_128  # torchvision's convnext_tiny

MODEL = Model(
    name="convnext-t",
    title="ConvNeXt-Tiny, 224x224 images",
    batch=96,
    source="Liu et al. 2022 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=classifier("ConvNext", PARAMETERS, PIXELS, image_size=PIXELS, drop_path_rate=DROP_PATH),
    details={"pixels": PIXELS, "drop_path": DROP_PATH},
)
step = MODEL.step
