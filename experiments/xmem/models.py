"""The models of the xMem data set by the names that it uses, built without a hub, from their public model cards.

Sources: torchvision's constructors for the CNNs (MobileNetV3 and MnasNet with 10 classes, as the data set has them);
each model's config.json on the Hugging Face hub for the transformers. Fields that the library's defaults already
give are left out. `parameters` is the published count (tied weights once); tests hold the built models against it.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # compare.py reads this table too, and needs no torch
    import torch

IMAGES, CAUSAL, SEQ2SEQ, MASKED = "images", "causal", "seq2seq", "masked"
_AUTO = {CAUSAL: "AutoModelForCausalLM", SEQ2SEQ: "AutoModelForSeq2SeqLM", MASKED: "AutoModelForMaskedLM"}


@dataclass(frozen=True)
class Model:
    """How to build one model: a torchvision constructor's name, or a transformers model type with its configuration."""

    kind: str
    source: str
    parameters: int
    config: dict[str, Any] = field(default_factory=dict)

    def build(self) -> "torch.nn.Module":
        """The model on the CPU, with random weights."""
        if self.kind == IMAGES:
            import torchvision

            constructor: Any = getattr(torchvision.models, self.source)
            return constructor(weights=None, **self.config)
        import transformers

        config = transformers.AutoConfig.for_model(self.source, **self.config)
        return getattr(transformers, _AUTO[self.kind]).from_config(config)


def _cnn(source: str, parameters: int, **config: Any) -> Model:
    return Model(IMAGES, source, parameters, config)


def _gpt2(parameters: int, **config: Any) -> Model:
    return Model(CAUSAL, "gpt2", parameters, config)


def _opt(parameters: int, **config: Any) -> Model:
    return Model(CAUSAL, "opt", parameters, {"vocab_size": 50272, "dropout": 0.1, "attention_dropout": 0.0} | config)


def _t5(parameters: int, **config: Any) -> Model:
    return Model(SEQ2SEQ, "t5", parameters, {"vocab_size": 32128, "decoder_start_token_id": 0} | config)


def _decoder(source: str, parameters: int, layers: int, hidden: int, inner: int, heads: int, **config: Any) -> Model:
    """A decoder whose configuration uses the names that LLaMA's began."""
    shape = {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
    }
    return Model(CAUSAL, source, parameters, shape | config)


# fmt: off
MODELS = {
    "VGG11": _cnn("vgg11", 132_863_336),
    "VGG16": _cnn("vgg16", 138_357_544),
    "VGG19": _cnn("vgg19", 143_667_240),
    "ResNet50": _cnn("resnet50", 25_557_032),
    "ResNet101": _cnn("resnet101", 44_549_160),
    "ResNet152": _cnn("resnet152", 60_192_808),
    "MobileNetV2": _cnn("mobilenet_v2", 3_504_872),
    # "MobeNet" is how the data set spells it.
    "MobeNetV3Small": _cnn("mobilenet_v3_small", 1_528_106, num_classes=10),
    "MobeNetV3Large": _cnn("mobilenet_v3_large", 4_214_842, num_classes=10),
    "MnasNet": _cnn("mnasnet1_0", 3_115_122, num_classes=10),
    "ConvNeXtTiny": _cnn("convnext_tiny", 28_589_128),
    "ConvNeXtBase": _cnn("convnext_base", 88_591_464),
    "RegNetX400MF": _cnn("regnet_x_400mf", 5_495_976),
    "RegNetX32GF": _cnn("regnet_x_32gf", 107_811_560),
    "RegNetY400MF": _cnn("regnet_y_400mf", 4_344_144),
    "RegNetY32GF": _cnn("regnet_y_32gf", 145_046_770),
    "openai-community/gpt2": _gpt2(124_439_808),
    "distilbert/distilgpt2": _gpt2(81_912_576, n_layer=6),
    "cerebras/Cerebras-GPT-111M": _gpt2(
        111_050_496, n_positions=2048, n_layer=10, n_inner=3072, activation_function="gelu",
        attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0,
    ),
    "EleutherAI/gpt-neo-125M": Model(
        CAUSAL, "gpt_neo", 125_198_592,
        {"hidden_size": 768, "num_layers": 12, "num_heads": 12, "attention_types": [[["global", "local"], 6]],
         "attention_dropout": 0, "embed_dropout": 0, "resid_dropout": 0},
    ),
    "facebook/opt-125m": _opt(
        125_239_296, hidden_size=768, num_hidden_layers=12, ffn_dim=3072, num_attention_heads=12,
        word_embed_proj_dim=768,
    ),
    "facebook/opt-350m": _opt(
        331_196_416, hidden_size=1024, num_hidden_layers=24, ffn_dim=4096, num_attention_heads=16,
        word_embed_proj_dim=512, do_layer_norm_before=False,
    ),
    "t5-small": _t5(60_506_624, d_model=512, d_ff=2048, num_layers=6, num_heads=8),
    "t5-base": _t5(222_903_552, d_model=768, d_ff=3072, num_layers=12, num_heads=12),
    "microsoft/deberta-base": Model(
        MASKED, "deberta", 139_244_121,
        {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False,
         "vocab_size": 50265, "type_vocab_size": 0, "layer_norm_eps": 1e-7, "pad_token_id": 0},
    ),
    "EleutherAI/pythia-1b": _decoder(
        "gpt_neox", 1_011_781_632, 16, 2048, 8192, 8, vocab_size=50304, max_position_embeddings=2048,
        rotary_pct=0.25, tie_word_embeddings=False,
    ),
    "Qwen/Qwen3-0.6B": _decoder(
        "qwen3", 596_049_920, 28, 1024, 3072, 16, num_key_value_heads=8, head_dim=128, vocab_size=151936,
        max_position_embeddings=40960, tie_word_embeddings=True,
    ),
    "Qwen/Qwen3-4B": _decoder(
        "qwen3", 4_022_468_096, 36, 2560, 9728, 32, num_key_value_heads=8, head_dim=128, vocab_size=151936,
        max_position_embeddings=40960, tie_word_embeddings=True,
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": _decoder(
        "qwen2", 1_777_088_000, 28, 1536, 8960, 12, num_key_value_heads=2, vocab_size=151936,
        max_position_embeddings=131072, tie_word_embeddings=False,
    ),
    "meta-llama/Llama-3.2-3B-Instruct": _decoder(
        "llama", 3_212_749_824, 28, 3072, 8192, 24, num_key_value_heads=8, head_dim=128, vocab_size=128256,
        max_position_embeddings=131072, tie_word_embeddings=True,
    ),
    "google/gemma-2-2b-it": _decoder(
        "gemma2", 2_614_341_888, 26, 2304, 9216, 8, num_key_value_heads=4, head_dim=256, vocab_size=256000,
        max_position_embeddings=8192,
    ),
    "JetBrains/Mellum-4b-base": _decoder(
        "llama", 4_019_248_128, 30, 3072, 8256, 24, num_key_value_heads=24, head_dim=128, vocab_size=98304,
        max_position_embeddings=8192, tie_word_embeddings=False,
    ),
}
# fmt: on


def find(name: str) -> Model:
    """The model called `name`, or that of a folder or file with a config.json of one's own.

    Capitals do not matter, nor does the owner's name; "owner-model" is "owner/model", as in the names of the data set's
    folders. Raises ValueError if there is neither.
    """
    for known, model in MODELS.items():
        if name.lower() in (known.lower(), known.lower().replace("/", "-"), known.lower().rpartition("/")[2]):
            return model
    path = Path(name)
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"unknown model {name!r}; known: {', '.join(MODELS)}, or a folder with a config.json")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        kind = SEQ2SEQ if config.get("is_encoder_decoder") else CAUSAL
        return Model(kind, config.pop("model_type"), 0, config)
    except (ValueError, KeyError, AttributeError):
        raise ValueError(f"{file} is not a model's config.json") from None
