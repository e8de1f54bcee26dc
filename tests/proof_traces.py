"""The shipped traces as they were when programs of others ran on them, whose answers cannot be had again.

Since then the shipped ones have other prices of ops (costs.parquet in tests/data/proof has those of the day), and in
eight of them a few ops work in place that did not (these are there as they were). They also serve tests of what
happens rarely, and does on these.
"""

import dataclasses
from functools import cache

import numpy as np
import pyarrow.parquet as pq

from coopsim.trace import Trace, load
from tests.conftest import ROOT

FOLDER = ROOT / "tests/data/proof"


@cache
def load_of_the_proof(name: str) -> Trace:
    """A trace as it was on that day."""
    whole = FOLDER / f"{name}.parquet"
    if whole.exists():
        return load(whole)
    trace = load(ROOT / "traces" / f"{name}.parquet")
    table = pq.read_table(FOLDER / "costs.parquet", filters=[("trace", "=", name)])
    return dataclasses.replace(trace, cost_ns=table["cost_ns"].to_numpy().astype(np.int64))
