r"""GPT-2 on texts of many lengths, of which few are long: 4 texts per step, the longest decides.

    python experiments/longrun/train.py --lengths 4000 > lengths.txt
    coopsim phantom run --gpu rtx-3060 --memory 8.56GiB --steps 150 --lengths lengths.txt \
        -- python experiments/longrun/train.py

The first command prints the lengths of so many steps; the second makes the example of docs/long-runs.md (`figure.py`
beside this file its figure).
"""

import random
import sys
from collections.abc import Iterator


def lengths() -> Iterator[int]:
    """Tokens of each step, in multiples of 8: half of them at most 120, one in a hundred above 600."""
    source = random.Random(0)
    while True:
        yield min(8 * (1 + int(source.lognormvariate(2.7, 0.7))), 1024)


def main() -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for length in lengths():
        tokens = torch.zeros(4, length, dtype=torch.long).cuda()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--lengths"]:
        print(*(n for n, _ in zip(lengths(), range(int(sys.argv[2])), strict=False)), sep="\n")
    else:
        main()
