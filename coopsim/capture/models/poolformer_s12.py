"""PoolFormer-S12: a transformer's layers with average pooling in place of attention."""

from collections.abc import Callable

from coopsim.capture.models._model import Model, Setting

PIXELS = 224
DROP_PATH = 0.1
PARAMETERS = 11_915_176  # timm's poolformer_s12


def build(setting: Setting) -> Callable[[], object]:
    """One step on `batch` images, in train mode (whole residual branches dropped per image)."""
    import torch
    from transformers import PoolFormerConfig, PoolFormerForImageClassification

    from coopsim.capture.models._images import CLASSES, classify
    from coopsim.capture.models._step import check_parameters

    config = PoolFormerConfig(
        drop_path_rate=DROP_PATH,
        num_labels=CLASSES,  # type: ignore[call-arg]
    )
    with torch.device("cuda"):
        model = PoolFormerForImageClassification(config).train()
    check_parameters(model, PARAMETERS)
    return classify(setting, model, PIXELS)


MODEL = Model(
    name="poolformer-s12",
    title="PoolFormer-S12, 224x224 images",
    batch=96,
    source="Yu et al. 2022 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=build,
    details={"pixels": PIXELS, "drop_path": DROP_PATH},
)
