"""Swin-T on ImageNet-sized images, with the stochastic depth of its paper (the script of Coop's authors: Swin-B)."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import classifier

PIXELS = 224
DROP_PATH = 0.2
PARAMETERS = 28_288_354  # torchvision's swin_t

MODEL = Model(
    name="swin-t",
    title="Swin-T, 224x224 images",
    batch=40,
    source="Liu et al. 2021 (model); batch 40 and SGD as in Coop (NeurIPS 2023), "
    "whose script trains Swin-B by that name",
    build=classifier(
        "Swin",
        PARAMETERS,
        PIXELS,
        image_size=PIXELS,
        embed_dim=96,
        depths=[2, 2, 6, 2],
        num_heads=[3, 6, 12, 24],
        window_size=7,
        drop_path_rate=DROP_PATH,
    ),
    attention="eager",
    details={"pixels": PIXELS, "drop_path": DROP_PATH},
)
