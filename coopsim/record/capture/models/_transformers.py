"""Models of transformers, by their names there and their configurations. torch is imported when one is built."""

from collections.abc import Callable
from typing import Any

from coopsim.record.capture.models._model import Setting


def classifier(kind: str, parameters: int, pixels: int, **config: Any) -> Callable[[Setting], Callable[[], object]]:
    """Return what builds an image classifier of transformers, by its name there and the fields of its configuration.

    A step trains on `batch` images, in train mode.
    """

    def build(setting: Setting) -> Callable[[], object]:
        from coopsim.record.capture.models._step import CLASSES, build_classifier

        network = _of_transformers(kind, "ForImageClassification", setting, num_labels=CLASSES, **config)
        return build_classifier(setting, network, parameters, pixels)

    return build


def language_model(
    kind: str, head: str, parameters: int, tokens: int, **config: Any
) -> Callable[[Setting], Callable[[], object]]:
    """Return what builds a language model of transformers, by its name there, its head ("ForCausalLM") and its fields.

    A step trains on `batch` texts of so many tokens, in train mode.
    """

    def build(setting: Setting) -> Callable[[], object]:
        from coopsim.record.capture.models._step import build_language_model

        return build_language_model(setting, _of_transformers(kind, head, setting, **config), parameters, tokens)

    return build


def _of_transformers(kind: str, head: str, setting: Setting, **config: Any) -> Callable[[], Any]:
    import transformers

    fields = getattr(transformers, f"{kind}Config")(**config, attn_implementation=setting.attention)
    return lambda: getattr(transformers, f"{kind}{head}")(fields)
