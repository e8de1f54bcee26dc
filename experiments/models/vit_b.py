"""ViT-B/16 on ImageNet-sized images."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import classifier

PIXELS = 224
PARAMETERS = 86_567_656  # torchvision's vit_b_16

MODEL = Model(
    name="vit-b",
    title="ViT-B/16, 224x224 images",
    batch=64,
    source="Dosovitskiy et al. 2021 (model, without dropout); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=classifier("ViT", PARAMETERS, PIXELS, image_size=PIXELS),
    attention="eager",
    details={"pixels": PIXELS},
)
step = MODEL.step
