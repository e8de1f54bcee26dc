"""Record the committed traces again, and write down what they are: python traces/record.py [MODEL ...]

In the folder above this one."""

import hashlib
import sys
import tomllib
from pathlib import Path

from coopsim import trace
from coopsim.capture import Job, capture, models

#: The eight models of Coop's experiments, a mixture of experts, four that were held out when our policies were first
#: tuned, four that were until Thrift was changed, four until Foresight was, four until Thrift was changed again, and
#: twelve recorded after that; and how many consecutive steps of each: no two of SPOS's are alike, nor of the mixture's.
RECORDED = {
    "resnet-50": 1,
    "inception-v3": 1,
    "unet": 1,
    "swin-t": 1,
    "bert-large": 1,
    "bilstm": 1,
    "spos": 5,
    "gpt3-2.7b": 1,
    "moe": 5,
    "resnet-152": 1,
    "inception-v4": 1,
    "densenet-121": 1,
    "gpt-2": 1,
    "vit-b": 1,
    "convnext-t": 1,
    "efficientnet-b0": 1,
    "t5-base": 1,
    "regnet-y": 1,
    "mobilevit-s": 1,
    "whisper-small": 1,
    "llama-1.1b": 1,
    "mobilenet-v2": 1,
    "poolformer-s12": 1,
    "clip-b32": 1,
    "bart-base": 1,
    "vgg-16": 1,
    "mixer-b16": 1,
    "segformer-b0": 1,
    "wav2vec2-base": 1,
    "resnext-50": 1,
    "shufflenet-v2": 1,
    "albert-base": 1,
    "deberta-base": 1,
    "squeezenet": 1,
    "edsr": 1,
    "opt-350m": 1,
    "xlm-r-base": 1,
}
HERE = Path(__file__).parent
MANIFEST = HERE / "MANIFEST.toml"


def target(name: str) -> str:
    """What is captured: a reference model, or one that is only for experiments."""
    file = name.replace("-", "_").replace(".", "_")
    return name if name in models.names() else f"experiments/models/{file}.py:step"


def entry(name: str) -> dict[str, str]:
    """What the manifest says of one trace."""
    file = HERE / f"{name}.parquet"
    loaded = trace.load(file)
    steps = [f"--steps {RECORDED[name]}"] if RECORDED[name] > 1 else []
    return {
        "command": " ".join(["coopsim capture", target(name), *steps, f"-o traces/{file.name}"]),
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "content_hash": loaded.content_hash,
        **loaded.header["versions"],
    }


def main(names: list[str]) -> None:
    """Record the named ones of these models, or all of them, and bring the manifest up to date."""
    known = tomllib.loads(MANIFEST.read_text(encoding="utf-8")) if MANIFEST.exists() else {}
    for name in names or RECORDED:

        def say(line: str, name: str = name) -> None:
            print(f"{name}: {line}", file=sys.stderr)

        capture(Job(target(name), HERE / f"{name}.parquet", steps=RECORDED[name]), say)
        known[f"{name}.parquet"] = entry(name)
    blocks = []
    for file, fields in sorted(known.items()):
        blocks.append(f'["{file}"]\n' + "".join(f'{key} = "{value}"\n' for key, value in fields.items()))
    MANIFEST.write_text(
        "# Written by record.py: the recorded traces, and what they were recorded with.\n\n" + "\n".join(blocks)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
