"""MobileViT-S: convolutions, and transformers over patches between them."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import classifier

PIXELS = 256
DROPOUT = 0.1
PARAMETERS = 5_578_632  # of the released mobilevit-small

MODEL = Model(
    name="mobilevit-s",
    title="MobileViT-S, 256x256 images",
    batch=64,
    source="Mehta and Rastegari 2022 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=classifier("MobileViT", PARAMETERS, PIXELS, image_size=PIXELS, classifier_dropout_prob=DROPOUT),
    details={"pixels": PIXELS, "dropout": DROPOUT},
)
step = MODEL.step
