"""PoolFormer-S12: a transformer's layers with average pooling in place of attention."""

from collections.abc import Callable

from coopsim.record.capture.models._model import Model, Setting

PIXELS = 224
DROP_PATH = 0.1
PARAMETERS = 11_915_176  # timm's poolformer_s12


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images, in train mode (whole residual branches dropped per image)."""
    from transformers import PoolFormerConfig, PoolFormerForImageClassification

    from coopsim.record.capture.models._step import CLASSES, build_classifier

    config = PoolFormerConfig(
        drop_path_rate=DROP_PATH,
        num_labels=CLASSES,  # type: ignore[call-arg]
    )
    return build_classifier(setting, lambda: PoolFormerForImageClassification(config), PARAMETERS, PIXELS)


MODEL = Model(
    name="poolformer-s12",
    title="PoolFormer-S12, 224x224 images",
    batch=96,
    source="Yu et al. 2022 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "drop_path": DROP_PATH},
)
step = MODEL.step
