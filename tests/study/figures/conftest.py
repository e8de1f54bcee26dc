"""Pages to test: a small trace whose names are markup, and BERT-Large as `coopsim report` makes it by default."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coopsim.simulate.options import ReplayOptions
from coopsim.study.figures.page import write
from coopsim.study.figures.page_data import Ask, collect
from coopsim.trace import Trace
from coopsim.trace.synth import make

from .browser import Page, browser, find

OPTIONS = ReplayOptions(3)
ASK = Ask(["lru", "coop"], ["100%", "60%", "40%", "1KiB"], band=3, options=OPTIONS)
MARKUP = "</script><script>window.broken=1</script><img src=x onerror='window.broken=1'>&amp;<!--"


def nobody() -> None:
    """Does not count replays."""


def wicked(trace: Trace) -> Trace:
    """The trace with markup for every name that it has."""
    header = {key: f"{MARKUP}{key}" for key in ("model", "title", "batch", "optimizer", "cost_source", "source")}
    header |= {"approximations": [MARKUP], "versions": {MARKUP: MARKUP}}
    return replace(
        trace, name=[f"{n}{MARKUP}" for n in trace.name], module=[MARKUP for _ in trace.module], header=header
    )


@pytest.fixture(scope="session")
def small() -> Trace:
    return make("synth:unet:4")


@pytest.fixture(scope="session")
def data(small: Trace) -> dict[str, Any]:
    """What a page of a small trace shows; 1 KiB holds not even what is there at the start."""
    return collect([small], ASK, nobody)


@pytest.fixture(scope="session")
def wicked_page(small: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wicked") / "page.html"
    write(collect([wicked(small), small], ASK, nobody), path)
    return path


@pytest.fixture(scope="session")
def bert_page(bert: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three policies, eight budgets, ten steps."""
    path = tmp_path_factory.mktemp("bert") / "page.html"
    budgets = [f"{k}%" for k in range(100, 20, -10)]
    policies = ["dtr-oneflow", "dte-oneflow", "coop"]
    write(collect([bert], Ask(policies, budgets, options=ReplayOptions(10)), nobody), path)
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A tab of a headless Chromium."""
    pytest.importorskip("websockets", reason="websockets, which speaks with Chromium, is not installed")
    program = find()
    if program is None:
        pytest.skip("no Chromium is installed to open the page in")
    with browser(program, tmp_path_factory.mktemp("chromium")) as tab:
        yield tab
