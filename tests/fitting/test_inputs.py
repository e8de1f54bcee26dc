"""What a script depends on, and the text of its files."""

from pathlib import Path

import pytest

from coopsim.base.types import CoopsimError
from coopsim.fitting import inputs
from coopsim.fitting.editing import edits, loops, patch, source, texts

FILES = {
    "train.py": "import net\nfrom pkg.blocks import Block\n",
    "net.py": "WIDTH = 64\n",
    "pkg/__init__.py": "",
    "pkg/blocks.py": "from . import norms\nimport other\n",
    "pkg/norms.py": "EPS = 1e-5\n",
    "other.py": "",
    "unread.py": "",
    "conf/a.yaml": "batch: 8\n",
    "defaults.toml": "",
}


def test_another_file_that_a_script_reads_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    before = inputs.digest(command := ("python", "train.py", "--config=conf/a.yaml"))
    for name, text in FILES.items():
        Path(name).write_text(text + "# changed\n")
        assert (inputs.digest(command) == before) == (name == "unread.py"), name
        Path(name).write_text(text)
    assert inputs.digest(command) == before
    Path("net.py").write_bytes(b"\xff(")
    assert inputs.digest(command) != before


def test_lines_are_those_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Form feeds and other characters that end a line for str.splitlines; encodings; ends of lines."""
    text = "import torch\n\f\ndef f():\n    s = 'a\u2028b'\n    return torch.optim.SGD([], 1)\n"
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(text)
    call = source.call_at("a.py", 5, "SGD")
    assert call is not None
    begin, end = loops.span(text, call)
    assert text[begin:end] == "torch.optim.SGD([], 1)"
    edit = edits.Edit("a.py", 5, "SGD", (("foreach", -1, "False"),), imports="import math")
    edits.apply([edit], new := {})
    assert new["a.py"].endswith(
        "    s = 'a\u2028b'\n    import math\n    return torch.optim.SGD([], 1, foreach=False)\n"
    )
    Path("b.py").write_bytes("# coding: latin-1\r\nname = 'M\xfcller'\r\nm = name\r\n".encode("latin-1"))
    assert source.after_assignment("b.py", "m") == (3, "")
    new = texts.read("b.py").replace("m = name", "m = 1")
    assert texts.encoded("b.py", new) == Path("b.py").read_bytes().replace(b"m = name", b"m = 1")
    diff = patch._unified("b.py", new).encode("utf-8", "surrogateescape")
    assert b"\n-m = name\r\n+m = 1\r\n" in diff
    assert b"'M\xfcller'\r\n" in diff
    Path("b.py").write_bytes(b"\xff")
    with pytest.raises(CoopsimError, match="is not the text of a Python program"):
        texts.read("b.py")
