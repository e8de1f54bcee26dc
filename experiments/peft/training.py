"""What both training scripts share: a row's settings, its adapter and optimizer, and what is measured."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

#: `torch.linalg` on the host computes for minutes what no size depends on (frod: eigenvectors, inverses in fp64).
HOST = ("eigh", "inv", "pinv", "qr", "solve", "svd")


#: Of training_params.json: what changes memory and is followed, and what does not change it.
FOLLOWED = {"optimizer_kwargs", "optimizer_type", "autocast_adapter_dtype", "batch_size", "use_gc"}
INDIFFERENT = {"max_steps", "eval_steps", "seed", "grad_norm_clip", "lr_scheduler", "query_template", "repeats"}


class Settings:
    """Of a folder with adapter_config.json (without: full fine-tuning) and, if they differ, training_params.json.

    ValueError for one that changes the memory in a way that is not followed here.
    """

    def __init__(self, folder: Path, *, batch: int, optimizer: dict[str, Any], checkpointing: bool) -> None:
        path = folder / "training_params.json"
        given = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if other := [key for key in given if key not in FOLLOWED | INDIFFERENT]:
            raise ValueError(f"{path}: not followed: {', '.join(other)}")
        self.folder = folder
        self.adapted = (folder / "adapter_config.json").exists()
        self.batch: int = given.get("batch_size", batch)
        self.optimizer: dict[str, Any] = given.get("optimizer_kwargs", optimizer)
        self.optimizer_type: str = given.get("optimizer_type", "AdamW")
        self.adapters_in_fp32: bool = given.get("autocast_adapter_dtype", True)
        self.checkpointing: bool = given.get("use_gc", checkpointing)


def adapt(model: Any, settings: Settings) -> Any:
    """The model with the row's adapter; for full fine-tuning the model itself."""
    if not settings.adapted:
        return model.requires_grad_(True)
    import peft

    config = peft.PeftConfig.from_pretrained(settings.folder)
    if config.peft_type == "SHIRA":
        config.mask_fn = _sparse_mask
    if config.peft_type == "BOFT":
        from peft.tuners.boft import layer

        layer._FBD_CUDA = False  # its own extension was not compiled there: the number of parameters tells
    with _no_decompositions_on_the_host():
        return peft.get_peft_model(model, config, autocast_adapter_dtype=settings.adapters_in_fp32)


def _sparse_mask(layer: Any, rank: int, **_: Any) -> torch.Tensor:
    """SHiRA's, of as many ones, on the host: there the ones can be counted."""
    mask = torch.zeros(layer.weight.numel())
    mask[: rank * sum(layer.weight.shape)] = 1
    return mask.view(layer.weight.shape)


@contextmanager
def _no_decompositions_on_the_host() -> Iterator[None]:
    """They return zeros of the shapes that they would have."""
    before = {name: getattr(torch.linalg, name) for name in HOST}

    def shaped(name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if any(isinstance(a, torch.Tensor) and a.device.type != "cpu" for a in args):
                return before[name](*args, **kwargs)
            found = before[name](*(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args), **kwargs)
            if isinstance(found, torch.Tensor):
                return torch.zeros_like(found, device="cpu")
            return type(found)([torch.zeros_like(each, device="cpu") for each in found])

        return call

    for name in HOST:
        setattr(torch.linalg, name, shaped(name))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(torch.linalg, name, function)


def optimizer(model: Any, settings: Settings) -> Any:
    """Of the row: one of PyTorch's, or one of peft's by its name."""
    if settings.optimizer_type in ("lora-fa", "lora+", "riemannian"):
        from peft import optimizers

        if settings.optimizer_type == "lora-fa":
            return optimizers.create_lorafa_optimizer(model, **settings.optimizer)
        make = {"lora+": "create_loraplus_optimizer", "riemannian": "create_riemannian_optimizer"}
        return getattr(optimizers, make[settings.optimizer_type])(model, torch.optim.AdamW, **settings.optimizer)
    return getattr(torch.optim, settings.optimizer_type)(model.parameters(), **settings.optimizer)


def allocate_ranks(model: Any, step: int, steps: int) -> None:
    """What AdaLoRA and AdaMSS do after a step. The second half of the steps has numbers with which they also mask."""
    configs = getattr(model, "peft_config", {}).values()
    config = next((c for c in configs if type(c).__name__ in ("AdaLoraConfig", "AdamssConfig")), None)
    if config is not None:
        masked = getattr(config, "tinit", 0) if step > steps // 2 else 0
        model.base_model.update_and_allocate(masked + step)


class Meter:
    """What the table has: the most memory reserved, less what there was before the model; parameters."""

    def __init__(self) -> None:
        torch.nn.Linear(1, 1).to("cuda")
        torch.cuda.reset_peak_memory_stats()
        self._before = torch.cuda.max_memory_reserved()
        self._steps: list[tuple[int, int]] = []

    def step(self) -> None:
        """A step has ended."""
        self._steps.append((torch.cuda.memory_allocated(), torch.cuda.max_memory_reserved()))

    def write(self, model: Any, path: Path) -> None:
        """As JSON."""
        parameters = list(model.parameters())
        total = sum(p.numel() for p in parameters)
        trainable = sum(p.numel() for p in parameters if p.requires_grad)
        if hasattr(model, "get_nb_trainable_parameters"):
            trainable, total = model.get_nb_trainable_parameters()
        found = {
            "max_reserved_bytes": torch.cuda.max_memory_reserved() - self._before,
            "trainable": trainable,
            "total": total,
            "steps": [[a - self._before, r - self._before] for a, r in self._steps],
        }
        path.write_text(json.dumps(found), encoding="utf-8")
