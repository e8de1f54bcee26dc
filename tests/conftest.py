"""Shared by all tests: where the repository is, its real trace, and a command line to call."""

from pathlib import Path
from typing import NamedTuple

import pytest

from coopsim.cli import main
from coopsim.trace import Trace, load

ROOT = Path(__file__).parent.parent
BERT = ROOT / "traces" / "bert-large.parquet"


collect_ignore = ["data"]  # what tests read; its programs need a GPU, if a phantom one


class Answer(NamedTuple):
    """What a command gave."""

    code: int
    out: str
    err: str


@pytest.fixture
def coopsim(capsys: pytest.CaptureFixture[str]):
    """Call the command line in this process: `coopsim("replay", trace, …)` returns (code, out, err)."""

    def call(*args: object) -> Answer:
        capsys.readouterr()
        try:
            code = main([str(a) for a in args])
        except SystemExit as e:
            code = int(e.code or 0)
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def bert() -> Trace:
    """BERT-Large, as committed."""
    return load(BERT)
