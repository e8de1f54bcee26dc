"""Pickles from strangers: nothing in them runs, nothing takes more memory than it may, and each gets one line."""

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest

from coopsim.trace.snapshot import SnapshotError, read
from coopsim.trace.snapshot.unpickle import load
from tests.trace.snapshot.pickles import ENTRY, MADE, SEGMENT, WHOLE


def changed(*path: Any, to: Any) -> Any:
    """WHOLE with one thing in it replaced."""

    def within(value: Any, keys: tuple[Any, ...]) -> Any:
        if not keys:
            return to
        key, *rest = keys
        copy = dict(value) if isinstance(value, dict) else list(value)
        copy[key] = within(copy[key], tuple(rest)) if rest else to
        return copy

    return within(WHOLE, path)


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "s.pickle"
    path.write_bytes(data)
    return path


def test_whole_one_is_read(tmp_path: Path) -> None:
    found = read(written(tmp_path, pickle.dumps(WHOLE)))
    assert [e.action for e in found.events] == ["segment_alloc", "alloc"]
    assert found.segments[0].blocks[0].requested_bytes == 1000


class _Runs:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


MARK = "ran"
CODE = {
    "system": _Runs(os.system, f"touch {MARK}"),
    "eval": _Runs(eval, f"open('{MARK}', 'w')"),
    "exec": _Runs(exec, f"open('{MARK}', 'w')"),
    "open": _Runs(open, MARK, "w"),
    "inside": {"segments": [_Runs(os.system, f"touch {MARK}")], "device_traces": []},
    "a class": Path("/"),
}


@pytest.mark.parametrize("kind", CODE)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_code_never_runs(kind: str, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, pickle.dumps(CODE[kind], protocol))
    with pytest.raises(SnapshotError, match="plain data"):
        load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["s.pickle"]


OPCODES = {
    "instance": b"(ios\nsystem\n.",
    "old class": b"(cos\nsystem\no.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent": b"Pabc\n.",
    "build": b"}}b.",
    "newobj": b"\x80\x02})\x81.",
    "memo of 32 GiB": b"]" + b"r" + struct.pack("<I", 2**32 - 1) + b".",
    "text of 2**62 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
    "text of 8 GiB": b"\x80\x04\x8d" + struct.pack("<Q", 2**33) + b"x.",
    "bytes of 4 GiB": b"B" + struct.pack("<I", 2**32 - 1) + b".",
    "number of 2 GiB": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"1.",
    "frame of 2**40": b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b"N.",
    "bytearray of 2**40": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".",
    "negative": b"\x80\x02\x8b" + struct.pack("<i", -5) + b"1.",
    "empty stack": b"a.",
    "no mark": b"t.",
    "not a memo": b"h\x05.",
    "digits": b"I1e5\n.",
    "nothing": b"",
    "text": b"hello world\n",
    "parquet": b"PAR1" + bytes(100),
}


@pytest.mark.parametrize("kind", OPCODES)
def test_foreign_opcodes(kind: str, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError) as caught:
        read(written(tmp_path, OPCODES[kind]))
    assert "\n" not in str(caught.value)
    said = str(caught.value).rpartition("s.pickle: ")[2].lower()
    assert said
    assert not any(word in said for word in ("memo value", "opcode", "unpickl"))


def test_truncated_anywhere(tmp_path: Path) -> None:
    data = pickle.dumps(WHOLE, 4)
    for length in range(len(data)):
        with pytest.raises(SnapshotError):
            read(written(tmp_path, data[:length]))


def test_deep_and_doubling_structures(tmp_path: Path) -> None:
    deep = b"]" * 200_000 + b"a" * 199_999 + b"."
    doubling = (
        b"]q\x00" + b"".join(b"]q" + bytes([i]) + (b"h" + bytes([i - 1]) + b"a") * 2 for i in range(1, 60)) + b"."
    )
    for data in (deep, doubling):
        with pytest.raises(SnapshotError, match="not a memory snapshot"):
            read(written(tmp_path, data))


WRONG = {
    "segments": changed("segments", to=7),
    "a segment": changed("segments", to=["x"]),
    "device": changed("segments", 0, "device", to="cuda"),
    "blocks": changed("segments", 0, "blocks", to=None),
    "a block": changed("segments", 0, "blocks", 0, to=3),
    "state": changed("segments", 0, "blocks", 0, "state", to=["x"]),
    "negative size": changed("segments", 0, "blocks", 0, "size", to=-512),
    "huge size": changed("segments", 0, "blocks", 0, "size", to=2**70),
    "size as text": changed("segments", 0, "blocks", 0, "size", to="512"),
    "truth as size": changed("segments", 0, "blocks", 0, "size", to=True),
    "blocks that do not fill": changed("segments", 0, "blocks", 0, "size", to=512),
    "blocks apart": changed("segments", 0, "blocks", 0, "address", to=8192),
    "pool's id": changed("segments", 0, to=SEGMENT | {"segment_pool_id": (0, -1)}),
    "pool of another type": changed("segments", 0, to=SEGMENT | {"segment_pool_id": 5}),
    "device_traces": changed("device_traces", to={}),
    "a trace": changed("device_traces", 0, to="abc"),
    "an entry": changed("device_traces", 0, 0, to=()),
    "an entry's address": changed("device_traces", 0, 1, "addr", to=None),
    "an entry's size": changed("device_traces", 0, 1, "size", to=1.5),
    "frames": changed("device_traces", 0, 1, "frames", to={"a": 1}),
    "a frame": changed("device_traces", 0, 1, "frames", to=["main.py:3"]),
    "a line": changed("device_traces", 0, 1, "frames", to=[{"filename": "a", "line": "x", "name": "f"}]),
    "settings": changed("allocator_settings", to=[]),
    "conf": changed("allocator_settings", to={"PYTORCH_CUDA_ALLOC_CONF": 3}),
    "no traces": {"segments": []},
    "a list": [1, 2],
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_types(what: str, tmp_path: Path, coopsim: Any) -> None:
    path = written(tmp_path, pickle.dumps(WRONG[what]))
    for command in (("advise", path, "--memory", "1GiB"), ("import", "torch-snapshot", path, "-o", tmp_path / "t")):
        code, out, err = coopsim(*command)
        assert (code, out, err.count("\n")) == (2, "", 1), err
    assert [p.name for p in tmp_path.iterdir()] == ["s.pickle"]


def test_history_that_does_not_lead_there(tmp_path: Path, coopsim: Any) -> None:
    path = written(tmp_path, pickle.dumps(changed("device_traces", 0, to=[ENTRY, ENTRY])))
    code, _, err = coopsim("advise", path, "--memory", "1GiB")
    assert code == 2
    assert "its history does not lead to its segments (event 0" in err


def test_two_devices(tmp_path: Path) -> None:
    path = written(tmp_path, pickle.dumps(WHOLE | {"device_traces": [[], [], [MADE]]}))
    with pytest.raises(SnapshotError, match="has devices 0, 2; choose one with --device"):
        read(path)
    with pytest.raises(SnapshotError, match="nothing of device 5"):
        read(path, device=5)
    assert len(read(path, device=2).events) == 1
