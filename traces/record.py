"""Record the committed traces again, and write down what they are: python traces/record.py [MODEL ...]

In the folder above this one. Those that a card measured can only be taken over from results of `make gpu`, which makes
traces/CARD/MODEL@CARD.parquet: python traces/record.py --from experiments/gpu/results/FOLDER CARD"""

import argparse
import dataclasses
import hashlib
import importlib
import sys
import tomllib
from pathlib import Path

import numpy as np

from coopsim import trace
from coopsim.record.capture import Job, capture, models
from coopsim.record.capture.models import Model

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
MODELS = HERE.parent / "experiments" / "models"


def job(name: str) -> Job:
    """What is captured: a reference model, or one that is only for experiments, with TF32 as those have it."""
    file = HERE / f"{name}.parquet"
    if name in models.names():
        return Job(name, file, steps=RECORDED[name])
    return Job(f"experiments/models/{source(name).name}:step", file, steps=RECORDED[name], precision="tf32")


def source(name: str) -> Path:
    """The file of a model that is only for experiments."""
    return MODELS / (name.replace("-", "_").replace(".", "_") + ".py")


def recorded_by(job: Job) -> str:
    """The command that records a trace on the phantom GPU."""
    steps = [f"--steps {job.steps}"] if job.steps > 1 else []
    precision = [f"--precision {job.precision}"] if job.precision else []
    return " ".join(["coopsim capture", job.target, *steps, *precision, f"-o traces/{Path(job.out).name}"])


def described(file: Path, model: Model) -> None:
    """Give the trace of a model that is only for experiments the name and the setting that the model has."""
    recorded = trace.load(file)
    about = {"model": model.name, "title": model.title, "source": model.source, **model.details}
    trace.save(dataclasses.replace(recorded, header=recorded.header | about | model.setting().header), file)


def model_of(name: str) -> Model:
    """The description of a model that is only for experiments."""
    sys.path.insert(0, str(MODELS))  # some import one beside them
    model: Model = importlib.import_module(source(name).stem).MODEL
    return model


def entry(file: Path, command: str) -> dict[str, str]:
    """What the manifest says of one trace."""
    loaded = trace.load(file)
    return {
        "command": command,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "content_hash": loaded.content_hash,
        **loaded.header["versions"],
    }


def repeatable(measured: trace.Trace) -> trace.Trace:
    """Keep what is there at the start, used up, and replaced by nothing: a value that no dispatched op made."""
    replaced = set(measured.becomes.tolist())
    used_up = [s for s, there in enumerate(measured.alive_at_start) if there and s not in replaced]
    if not used_up:
        return measured
    becomes = measured.becomes.copy()
    becomes[used_up] = used_up
    stays = ~np.isin(measured.freed, used_up)
    what = f"{len(used_up)} values of {measured.bytes[used_up].sum()} B, made by no dispatched op, count as kept"
    said = [*measured.header.get("approximations", ()), what]
    columns = {"becomes": becomes, "freed": measured.freed[stays], "freed_after": measured.freed_after[stays]}
    return dataclasses.replace(measured, **columns, header=dict(measured.header) | {"approximations": said})


def take_over(results: Path, card: str) -> None:
    """The measured traces of a folder of results, named MODEL@CARD so that tables tell them from the phantom's."""
    (HERE / card).mkdir(exist_ok=True)
    found = {}
    for name in RECORDED:
        source = results / f"trace-{name}.parquet"
        if not source.exists():
            continue
        measured = repeatable(trace.load(source))
        header = dict(measured.header)
        header = header | {"model": f"{name}@{card}", "title": f"{header['title']}; measured on an {header['device']}"}
        file = HERE / card / f"{name}@{card}.parquet"
        trace.save(dataclasses.replace(measured, header=header), file)
        found[file.name] = entry(file, f"{header['command']}, on an {header['device']}, {header['machine']['date']}")
    write(HERE / card / MANIFEST.name, found)


def write(manifest: Path, entries: dict[str, dict[str, str]]) -> None:
    """Write a manifest: a table per file."""
    blocks = [
        f'["{file}"]\n' + "".join(f'{key} = "{value}"\n' for key, value in fields.items())
        for file, fields in sorted(entries.items())
    ]
    manifest.write_text(
        "# Written by record.py: the recorded traces, and what they were recorded with.\n\n" + "\n".join(blocks)
    )


def main() -> None:
    """Record the named ones of these models, or all of them, and bring the manifest up to date."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help="which (default: all)")
    parser.add_argument("--from", dest="results", nargs=2, metavar=("FOLDER", "CARD"), help="take over measured ones")
    args = parser.parse_args()
    if args.results:
        take_over(Path(args.results[0]), args.results[1])
        return
    known = tomllib.loads(MANIFEST.read_text(encoding="utf-8")) if MANIFEST.exists() else {}
    for name in args.models or RECORDED:

        def say(line: str, name: str = name) -> None:
            print(f"{name}: {line}", file=sys.stderr)

        what, file = job(name), HERE / f"{name}.parquet"
        capture(what, say)
        if what.is_file:
            described(file, model_of(name))
        known[file.name] = entry(file, recorded_by(what))
    write(MANIFEST, known)


if __name__ == "__main__":
    main()
