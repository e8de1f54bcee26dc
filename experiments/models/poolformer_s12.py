"""PoolFormer-S12: a transformer's layers with average pooling in place of attention."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import classifier

PIXELS = 224
DROP_PATH = 0.1
PARAMETERS = 11_915_176  # timm's poolformer_s12

MODEL = Model(
    name="poolformer-s12",
    title="PoolFormer-S12, 224x224 images",
    batch=96,
    source="Yu et al. 2022 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=classifier("PoolFormer", PARAMETERS, PIXELS, drop_path_rate=DROP_PATH),
    details={"pixels": PIXELS, "drop_path": DROP_PATH},
)
step = MODEL.step
