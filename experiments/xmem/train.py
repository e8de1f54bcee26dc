"""A plain training script for a GPU: a few steps of a model on random data, as in the runs that xMem measured.

It knows nothing of coopsim. Their loop (README and exp/ of Stone-ResearchLife/xMem): the model is built on the CPU and
moved; lr 1e-3, StepLR, gradients set to None at the start of a step, float32, four steps. CNNs see images of 86 by
86 pixels; transformers see texts of 128 tokens, which is what a batch of 20 or more is padded to in their data.

    python train.py --model facebook/opt-125m --optimizer AdamW --batch 55
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import models
import torch
from torch.overrides import TorchFunctionMode

START, BEFORE_BACKWARD, END = 0, 1, 2
OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adafactor")
#: Largest token id used: every vocabulary here has it.
TOKENS = 30_000


class NoRandomInit(TorchFunctionMode):
    """Leaves weights as allocated: training from noise needs the same memory, and large models start in seconds."""

    SKIPPED = frozenset(
        {"normal_", "uniform_", "erfinv_", "kaiming_normal_", "kaiming_uniform_", "xavier_normal_", "xavier_uniform_"}
    )

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") in self.SKIPPED:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def images(batch: int, size: int) -> Iterator[dict[str, torch.Tensor]]:
    while True:
        yield {"images": torch.randn(batch, 3, size, size), "labels": torch.randint(10, (batch,))}


def texts(batch: int, lengths: list[int]) -> Iterator[dict[str, torch.Tensor]]:
    """Batches of random tokens; the step's length is the next of `lengths`, and the last one from then on."""
    step = 0
    while True:
        ids = torch.randint(TOKENS, (batch, lengths[min(step, len(lengths) - 1)]))
        yield {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}
        step += 1


def train(args: argparse.Namespace, model: models.Model) -> None:
    device = torch.device("cuda")
    if args.memory_limit:
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, args.memory_limit * 2**20 / total))
    is_cnn = model.kind == models.IMAGES
    data = images(args.batch, args.image_size) if is_cnn else texts(args.batch, args.sequence)
    with NoRandomInit():
        network = model.build()
    network.to(device).train()
    optimizer = getattr(torch.optim, args.optimizer)(network.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)
    criterion = torch.nn.CrossEntropyLoss()
    for _ in range(args.steps):
        if args.zero_grad == START:
            optimizer.zero_grad()
        batch = {name: tensor.to(device) for name, tensor in next(data).items()}
        if is_cnn:
            outputs = network(batch["images"])
            loss = criterion(outputs, batch["labels"])
        else:
            outputs = network(**batch)
            loss = outputs.loss
        if args.zero_grad == BEFORE_BACKWARD:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if is_cnn:
            outputs.argmax(1)
        if args.zero_grad == END:
            optimizer.zero_grad()
        scheduler.step()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True, help="a name of models.py, or a folder with a config.json")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="AdamW")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--sequence", type=int, nargs="+", default=[128], metavar="TOKENS", help="of each step (128)")
    parser.add_argument("--image-size", type=int, default=86)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--zero-grad", type=int, choices=(START, BEFORE_BACKWARD, END), default=START)
    parser.add_argument("--memory-limit", type=float, metavar="MIB", help="cap of PyTorch's allocator")
    args = parser.parse_args()
    if min(args.batch, args.steps, args.image_size, *args.sequence) < 1:
        parser.error("--batch, --steps, --image-size and --sequence must be positive")
    return args


def main() -> int:
    args = arguments()
    try:
        model = models.find(args.model)
    except ValueError as error:
        sys.stderr.write(f"train.py: {error}\n")
        return 2
    train(args, model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
