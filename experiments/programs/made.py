"""Small data sets and models in the forms that the programs read. What is in them is drawn with a fixed seed."""

import json
import random
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    texts(folder)
    (folder / "prompts").mkdir()
    prompts = ({"prompt": f"word{i} " * 40} for i in range(64))
    (folder / "prompts" / "train.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in prompts), encoding="utf-8"
    )
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0, "reduce_bucket_size": 500_000_000}  # the default
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


def bert(folder: Path) -> None:
    """A BERT of Hugging Face's: 12 layers of width 768, and the tokenizer. 86 million random parameters."""
    from transformers import BertConfig, BertModel

    folder.mkdir(exist_ok=True)
    tokenizer(folder)
    BertModel(BertConfig(vocab_size=512, pad_token_id=0)).save_pretrained(folder)


def labelled(folder: Path) -> None:
    """The BERT, sentences of two classes, and a metric of `evaluate` in a file of its folder's name."""
    bert(folder)
    draw = random.Random(0)
    rows = (f"{' '.join(f'word{draw.randrange(5000)}' for _ in range(60))},{i % 2}\n" for i in range(512))
    (folder / "train.csv").write_text("sentence,label\n" + "".join(rows), encoding="utf-8")
    metric(folder)


def metric(folder: Path) -> None:
    """A metric of `evaluate` that is always 0, found in the folder of its name instead of downloaded."""
    code = """
        import datasets
        import evaluate

        class Made(evaluate.Metric):
            def _info(self):
                kinds = datasets.Features({name: datasets.Value("string") for name in ("predictions", "references")})
                return evaluate.MetricInfo(description="", citation="", inputs_description="", features=kinds)

            def _compute(self, predictions, references):
                return {"made": 0.0}
        """
    (folder / f"{folder.name}.py").write_text(textwrap.dedent(code), encoding="utf-8")


def sentences(folder: Path) -> None:
    """The BERT, and pairs of sentences in folders of the names that they have on Hugging Face's hub."""
    bert(folder / "model")
    draw = random.Random(0)

    def sentence() -> str:
        return " ".join(f"word{draw.randrange(5000)}" for _ in range(40))

    rows = [{"premise": sentence(), "hypothesis": sentence(), "label": i % 3} for i in range(10_000)]
    scored = [{"sentence1": sentence(), "sentence2": sentence(), "score": 0.5} for _ in range(64)]
    parts = {"all-nli": {"train": rows, "dev": rows[:1000]}, "stsb": {"validation": scored, "test": scored}}
    for name, splits in parts.items():
        (folder / name).mkdir()
        for split, found in splits.items():
            (folder / name / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
        files = "".join(f"  - split: {split}\n    path: {split}.jsonl\n" for split in splits)
        config = {"all-nli": "pair-class", "stsb": "default"}[name]
        text = f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{files}---\n"
        (folder / name / "README.md").write_text(text, encoding="utf-8")


def speech(folder: Path) -> None:
    """A Whisper of Hugging Face's, of 6 and 6 layers of width 512, with sound and texts, and a metric."""
    import wave

    from transformers import (
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
        WhisperProcessor,
        WhisperTokenizerFast,
    )

    metric(folder)
    tokenizer(folder)
    words = WhisperTokenizerFast.from_pretrained(folder)
    WhisperProcessor(WhisperFeatureExtractor(), words).save_pretrained(folder)
    ids = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "decoder_start_token_id": 1}
    shape = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}
    heads = {"encoder_attention_heads": 8, "decoder_attention_heads": 8}
    none: dict[str, Any] = {"suppress_tokens": None, "begin_suppress_tokens": None}
    config = WhisperConfig(vocab_size=512, **shape, **heads, **ids, **none)
    WhisperForConditionalGeneration(config).save_pretrained(folder)
    draw, noise = random.Random(0), np.random.default_rng(0)
    for split in ("train", "test"):
        (folder / "spoken" / split).mkdir(parents=True)
        said = []
        for i in range(64):
            with wave.open(str(folder / "spoken" / split / f"{i}.wav"), "wb") as file:
                file.setparams((1, 2, 16_000, 0, "NONE", ""))
                file.writeframes(noise.integers(-9000, 9000, 16_000 * 4).astype(np.int16).tobytes())
            said.append({"file_name": f"{i}.wav", "text": " ".join(f"word{draw.randrange(5000)}" for _ in range(20))})
        lines = "".join(json.dumps(row) + "\n" for row in said)
        (folder / "spoken" / split / "metadata.jsonl").write_text(lines, encoding="utf-8")


def cora(folder: Path) -> None:
    """A graph in the form of Planetoid's Cora: 20,000 nodes of 500 features in 7 classes, 5 edges of each."""
    import pickle

    draw = np.random.default_rng(0)
    nodes, tests = 20_000, 1000
    features = (draw.random((nodes, 500)) < 0.02).astype(np.float32)
    classes = np.eye(7, dtype=np.int32)[draw.integers(0, 7, nodes)]
    first, last = slice(0, 140), slice(nodes - tests, nodes)
    parts: dict[str, Any] = {"x": features[first], "tx": features[last], "allx": features[: nodes - tests]}
    parts |= {"y": classes[first], "ty": classes[last], "ally": classes[: nodes - tests]}
    parts["graph"] = {i: draw.integers(0, nodes, 5).tolist() for i in range(nodes)}
    for name, part in parts.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(part))
    (folder / "ind.cora.test.index").write_text("\n".join(map(str, range(nodes - tests, nodes))) + "\n")


def torchtune(folder: Path) -> None:
    """What torchtune reads: a configuration, a Llama of 8 layers of width 1024, a tokenizer, a data set."""
    import sentencepiece
    import torch
    import yaml
    from torchtune.models.llama2 import llama2

    dialogues(folder)
    words = (f"word{i}" for i in range(5000))
    kept = {"pad_id": 3, "bos_id": 1, "eos_id": 2, "unk_id": 0}
    prefix = str(folder / "tokenizer")
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=words, model_prefix=prefix, vocab_size=200, **kept)
    shape = {"vocab_size": 512, "num_layers": 8, "num_heads": 16, "num_kv_heads": 16, "embed_dim": 1024}
    shape |= {"max_seq_len": 2048, "intermediate_dim": 4096}
    torch.save(llama2(**shape).state_dict(), folder / "model.pt")
    draw = random.Random(0)
    asked = [" ".join(f"word{draw.randrange(5000)}" for _ in range(100)) for _ in range(64)]
    rows = [{"instruction": text, "input": "", "output": text} for text in asked]
    (folder / "train.json").write_text(json.dumps(rows), encoding="utf-8")
    config = {
        "output_dir": str(folder / "out"),
        "tokenizer": {"_component_": "torchtune.models.llama2.llama2_tokenizer", "path": f"{prefix}.model"},
        "dataset": {"_component_": "torchtune.datasets.alpaca_dataset", "source": "json"},
        "seed": 0,
        "shuffle": True,
        "model": {"_component_": "torchtune.models.llama2.llama2"} | shape,
        "checkpointer": {
            "_component_": "torchtune.training.FullModelTorchTuneCheckpointer",
            "checkpoint_dir": str(folder),
            "checkpoint_files": ["model.pt"],
            "recipe_checkpoint": None,
            "output_dir": "${output_dir}",
            "model_type": "LLAMA2",
        },
        "resume_from_checkpoint": False,
        "batch_size": 4,
        "epochs": 1,
        "optimizer": {"_component_": "torch.optim.AdamW", "lr": 2e-5},
        "loss": {"_component_": "torchtune.modules.loss.LinearCrossEntropyLoss"},
        "max_steps_per_epoch": None,
        "gradient_accumulation_steps": 1,
        "optimizer_in_bwd": False,
        "clip_grad_norm": None,
        "compile": False,
        "device": "cuda",
        "enable_activation_checkpointing": False,
        "enable_activation_offloading": False,
        "dtype": "fp32",
        "metric_logger": {
            "_component_": "torchtune.training.metric_logging.DiskLogger",
            "log_dir": "${output_dir}/logs",
        },
        "log_every_n_steps": 1,
        "log_peak_memory_stats": True,
        "log_level": "INFO",
        "profiler": {"_component_": "torchtune.training.setup_torch_profiler", "enabled": False},
    }
    config["dataset"] |= {"data_files": str(folder / "train.json")}  # type: ignore[operator]
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def deepspeed(folder: Path) -> None:
    """A configuration of DeepSpeed's: ZeRO-3 in bfloat16 with PyTorch's AdamW, as its own is compiled by nvcc."""
    config: dict[str, Any] = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1}
    config["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}
    config |= {"bf16": {"enabled": True}}
    config["zero_optimization"] = {"stage": 3, "reduce_bucket_size": 5e7, "stage3_param_persistence_threshold": 0}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def texts_of_json(folder: Path) -> None:
    """A JSON file of texts, a line each."""
    dialogues(folder)
    (folder / "train.jsonl").rename(folder / "data.json")


MADE: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        *(tokens, texts, dialogues, images, boxes, tokenizer, llama, pythia, nanochat, labelled, sentences, speech),
        *(cora, torchtune, texts_of_json, deepspeed),
    )
}

if __name__ == "__main__":  # a process of its own, as some import PyTorch
    MADE[sys.argv[1]](Path(sys.argv[2]))
