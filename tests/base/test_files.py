"""Where files go."""

from pathlib import Path

import pytest

from coopsim.base.files import cache_folder


def test_one_folder_holds_what_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COOPSIM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/coopsim")
    monkeypatch.setenv("COOPSIM_CACHE_DIR", "/mine")
    assert cache_folder() == Path("/mine")
