"""EfficientNet-B0 on ImageNet-sized images."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import classifier

PIXELS = 224
DROPOUT = 0.2
PARAMETERS = 5_288_548  # torchvision's efficientnet_b0

MODEL = Model(
    name="efficientnet-b0",
    title="EfficientNet-B0, 224x224 images",
    batch=128,
    source="Tan and Le 2019 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=classifier(
        "EfficientNet",
        PARAMETERS,
        PIXELS,
        image_size=PIXELS,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        hidden_dim=1280,
        dropout_rate=DROPOUT,
    ),
    details={"pixels": PIXELS, "dropout": DROPOUT},
)
step = MODEL.step
