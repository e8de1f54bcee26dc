"""MobileNetV2 on ImageNet-sized images: depthwise convolutions between narrow layers."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import classifier

PIXELS = 224
DROPOUT = 0.2
PARAMETERS = 3_504_872  # torchvision's mobilenet_v2

MODEL = Model(
    name="mobilenet-v2",
    title="MobileNetV2, 224x224 images",
    batch=128,
    source="Sandler et al. 2018 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=classifier(
        "MobileNetV2", PARAMETERS, PIXELS, image_size=PIXELS, tf_padding=False, classifier_dropout_prob=DROPOUT
    ),
    details={"pixels": PIXELS, "dropout": DROPOUT},
)
step = MODEL.step
