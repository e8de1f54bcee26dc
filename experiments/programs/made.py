"""Small data sets and models in the forms that the programs read. What is in them is drawn with a fixed seed."""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np


def tokens(folder: Path) -> None:
    """nanoGPT's: token ids of GPT-2 as 16-bit numbers, for training and for validation."""
    draw = np.random.default_rng(0)
    for name in ("train", "val"):
        draw.integers(0, 50257, 300_000).astype(np.uint16).tofile(folder / f"{name}.bin")


def texts(folder: Path) -> None:
    """Files of plain text for training, validation and test, of 5000 different words."""
    draw = random.Random(0)
    for name in ("train", "valid", "test"):
        lines = (" ".join(f"word{draw.randrange(5000)}" for _ in range(40)) for _ in range(2000))
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def dialogues(folder: Path) -> None:
    """A JSON file of texts, as Hugging Face's `datasets` reads it from a folder."""
    draw = random.Random(0)
    rows = ({"text": " ".join(f"word{draw.randrange(5000)}" for _ in range(400))} for _ in range(64))
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def images(folder: Path) -> None:
    """A folder per class with photographs, of noise: ImageNet's layout."""
    from PIL import Image

    draw = np.random.default_rng(0)
    for part in ("train", "validation"):
        for label in ("cat", "dog"):
            (folder / part / label).mkdir(parents=True)
            for i in range(64):
                pixels = draw.integers(0, 256, (256, 256, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / part / label / f"{i}.jpg")


def boxes(folder: Path) -> None:
    """Photographs with boxes, in Ultralytics' layout."""
    from PIL import Image

    draw = np.random.default_rng(0)
    for part in ("train", "val"):
        (folder / "images" / part).mkdir(parents=True)
        (folder / "labels" / part).mkdir(parents=True)
        for i in range(32):
            pixels = draw.integers(0, 256, (480, 640, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "images" / part / f"{i}.jpg")
            (folder / "labels" / part / f"{i}.txt").write_text("0 0.5 0.5 0.2 0.2\n1 0.3 0.3 0.1 0.1\n")
    (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: [cat, dog]\n")


def tokenizer(folder: Path) -> None:
    """A tokenizer of Hugging Face's, by bytes, with 512 tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=512, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([" ".join(f"word{i}" for i in range(5000))], trainer)
    made.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": special[0], "pad_token": special[0]}
    settings["chat_template"] = (
        "{% for message in messages %}<|im_start|>{{ message.role }} {{ message.content }}<|im_end|>{% endfor %}"
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def llama(folder: Path) -> None:
    """A Llama of Hugging Face's: 8 layers of width 1024, and the tokenizer. 135 million random parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer(folder)
    shape = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 8, "num_attention_heads": 16}
    ids = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    config = LlamaConfig(vocab_size=512, max_position_embeddings=2048, **shape, **ids)
    LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "texts").mkdir()
    dialogues(folder / "texts")
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0}
    auto = dict.fromkeys(("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), "auto")
    (folder / "zero3.json").write_text(json.dumps(auto | {"zero_optimization": zero, "bf16": {"enabled": True}}))


def pythia(folder: Path) -> None:
    """A checkpoint of LitGPT's: Pythia 160M with random parameters, a tokenizer, and instructions to train on."""
    import torch
    from litgpt import GPT, Config
    from litgpt.utils import save_config

    tokenizer(folder)
    config = Config.from_name("pythia-160m")
    torch.save(GPT(config).state_dict(), folder / "lit_model.pth")
    save_config(config, folder)
    draw = random.Random(0)
    words = (" ".join(f"word{draw.randrange(5000)}" for _ in range(100)) for _ in range(64))
    rows = [{"instruction": text, "input": "", "output": text} for text in words]
    (folder / "train.json").write_text(json.dumps(rows), encoding="utf-8")


def nanochat(folder: Path) -> None:
    """What nanochat reads: a parquet file of texts, its tokenizer, and the bytes of each token."""
    import pickle

    import pyarrow as pa
    import pyarrow.parquet as pq
    import tiktoken
    import torch

    draw = random.Random(0)
    rows = [" ".join(f"word{draw.randrange(5000)}" for _ in range(400)) for _ in range(2000)]
    (folder / "base_data_climbmix").mkdir()
    for name in ("shard_00000", "shard_00001"):
        pq.write_table(pa.table({"text": rows}), folder / "base_data_climbmix" / f"{name}.parquet", row_group_size=500)
    (folder / "tokenizer").mkdir()
    special = ["<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"]
    special += ["<|python_start|>", "<|python_end|>", "<|output_start|>", "<|output_end|>"]
    ranks = {bytes([i]): i for i in range(256)}
    ids = {name: 256 + i for i, name in enumerate(special)}
    encoding = tiktoken.Encoding("made", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens=ids)
    with (folder / "tokenizer" / "tokenizer.pkl").open("wb") as file:
        pickle.dump(encoding, file)
    torch.save(torch.tensor([1] * 256 + [0] * len(special), dtype=torch.int32), folder / "tokenizer" / "token_bytes.pt")


MADE: dict[str, Callable[[Path], None]] = {
    one.__name__: one for one in (tokens, texts, dialogues, images, boxes, tokenizer, llama, pythia, nanochat)
}

if __name__ == "__main__":  # a process of its own, as some import PyTorch
    MADE[sys.argv[1]](Path(sys.argv[2]))
