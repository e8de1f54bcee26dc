"""Make the H100's card file, which coopsim ships, from what was measured: python -m experiments.gpu.card_file.

The context is that of context.csv, and of live.json with its version of torch; addresses are the first that the driver
gave in a history of the allocator.
"""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

from coopsim.base import files
from coopsim.cards import card_file, prices, profiles
from coopsim.cards.prices import IEEE
from coopsim.trace.snapshot import unpickle

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "experiments" / "gpu" / "results" / "nvidia-h100-80gb-hbm3-2026-11-26"
OUT = ROOT / "coopsim" / "cards" / "measured" / "h100-80gb.json"
CARD = "h100-80gb"
_BY = "coopsim's authors"
_LIVE_TORCH = "2.13.0"  # of live.json, whose figures are of examples/train.py
#: What each step of context.csv was the first to use, and how many of the libraries had been used by then.
_AFTER = {
    "torch.zeros(1)": [],
    "fp32 matmul": ["cublas"],
    "convolution forward and backward": ["cublas", "cudnn"],
    "TransformerEncoderLayer with AdamW": ["cublas", "cudnn", "cublaslt"],
    "torch.linalg.svd": ["cublas", "cudnn", "cublaslt", "cusolver"],
    "torch.fft.fft": ["cublas", "cudnn", "cublaslt", "cusolver", "cufft"],
}
#: Of live.json: its layers are all products with a bias, by cuBLASLt; the backward pass uses cuBLAS, too.
_LIVE = {"fit plain capped": ["cublaslt"], "fit plain uncapped": ["cublas", "cublaslt"]}
_ADDRESSES = 16


def context(folder: Path, driver: str, torch: str, cuda: str) -> list[dict[str, Any]]:
    """Return the readings of the context with both versions of torch."""
    with open(folder / "context.csv", encoding="utf-8", newline="") as file:
        read = {row["after"]: round(float(row["outside_mib"]) * 2**20) for row in csv.DictReader(file)}
    live = {row["name"]: row["outside_bytes"] for row in json.loads((folder / "live.json").read_text())}
    said = (
        (torch, [(after, loaded, read[after]) for after, loaded in _AFTER.items()]),
        (_LIVE_TORCH, [(f"live.json: {name}", loaded, live[name]) for name, loaded in _LIVE.items()]),
    )
    return [
        {
            "torch": version,
            "cuda": cuda,
            "driver": driver,
            "readings": [{"after": after, "loaded": loaded, "bytes": nbytes} for after, loaded, nbytes in rows],
        }
        for version, rows in said
    ]


def workspaces(folder: Path) -> list[dict[str, Any]]:
    """Return the workspaces of the convolutions of ResNet-50 at batch 32, and of LSTMs of two layers."""
    found = []
    with open(folder / "grid.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            of_resnet = row["kind"] == "conv" and row["shape"].startswith("32x") and '"resnet50"' in row["more"]
            of_lstm = (
                row["kind"] == "rnn" and row["op"].startswith("LSTM") and row["more"].startswith("[1024, 2, false")
            )
            if ((of_resnet and row["layout"] == "c") or of_lstm) and row["dtype"] != "float16":
                of = {key: row[key] for key in ("kind", "op", "dtype", "layout", "shape", "more")}
                found.append(of | {"bytes": int(row["workspace_bytes"])})
    return found


def addresses(folder: Path) -> list[dict[str, int]]:
    """Return the sizes and addresses of the first segments, in the order of their requests."""
    history = unpickle.load(folder / "snapshot-resnet-50.pickle")["device_traces"][0]
    of_driver = [event for event in history if event["action"] in ("segment_alloc", "segment_free")]
    first = of_driver[: next((i for i, e in enumerate(of_driver) if e["action"] == "segment_free"), None)]
    return [{"bytes": event["size"], "address": event["addr"]} for event in first[:_ADDRESSES]]


def content(folder: Path) -> dict[str, Any]:
    """Return the card file of the H100 that was measured."""
    machine = json.loads((folder / "machine.json").read_text())["machine"]
    versions = machine["versions"]
    shared = prices.table(profiles.get(CARD))  # made of the same results (fit_prices.py)
    return {
        "card_version": card_file.VERSION,
        "phantom": machine["phantom"],
        "card": {
            "profile": CARD,
            "memory_mib": machine["memory_bytes"] >> 20,
            "sms": machine["multiprocessors"],
        },
        "measured": {
            "by": _BY,
            "date": machine["date"],
            "driver": machine["driver"],
            "torch": versions["torch"],
            "cuda": machine["cuda"],
            "cudnn": str(machine["cudnn"]),
            "python": versions["python"],
            "nvidia_smi": machine["nvidia_smi"],
        },
        "context": context(folder, machine["driver"], versions["torch"], machine["cuda"]),
        "prices": {**shared.classes, IEEE: shared.ieee_fp32_of_peak},
        "workspaces": workspaces(folder),
        "addresses": addresses(folder),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.parse_args()
    text = card_file.text(content(FOLDER))
    with files.replacing(OUT) as part:
        part.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
