"""RegNetY-3.2GF on ImageNet-sized images: grouped convolutions with squeeze and excitation."""

from coopsim.record.capture.models._model import Model
from coopsim.record.capture.models._transformers import classifier

PIXELS = 224
WIDTHS, DEPTHS, GROUP = (72, 216, 576, 1512), (2, 5, 13, 1), 24
PARAMETERS = 19_436_338  # torchvision's regnet_y_3_2gf

MODEL = Model(
    name="regnet-y",
    title="RegNetY-3.2GF, 224x224 images",
    batch=96,
    source="Radosavovic et al. 2020 (model); batch ours, SGD as in Coop (NeurIPS 2023)",
    build=classifier(
        "RegNet",
        PARAMETERS,
        PIXELS,
        layer_type="y",
        embedding_size=32,
        hidden_sizes=list(WIDTHS),
        depths=list(DEPTHS),
        groups_width=GROUP,
    ),
    details={"pixels": PIXELS},
)
step = MODEL.step
