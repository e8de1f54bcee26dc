"""Programs that are not on the phantom GPU keep the machine as it is, unless PyTorch cannot even be imported."""

from pathlib import Path

import pytest

from coopsim import phantom
from coopsim.cards.wheel import Wheel


@pytest.mark.parametrize("reason", ["not Linux", "a build without CUDA"])
def test_nothing_is_changed_where_there_is_no_such_build(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> Wheel:
        raise phantom.PhantomError(reason)

    monkeypatch.setattr(phantom.wheel, "find", find)
    assert phantom.without_gpu() == {}


def test_nothing_is_changed_where_libraries_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phantom.wheel, "find", lambda: Wheel(tmp_path / "torch", "2.6.0", "12.4"))
    monkeypatch.setattr(Wheel, "can_be_imported", lambda _: True)  # as of wheels that bundle cuDNN, and of conda
    assert phantom.without_gpu() == {}
