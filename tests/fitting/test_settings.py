"""Settings in files that the command names are options, too; a copy of the file is run."""

from pathlib import Path

import pytest

from coopsim.fitting.editing import copies, edits, settings
from coopsim.fitting.editing.edits import Edit
from coopsim.fitting.options import BatchOptions

YAML = """\
# of a model
batch_size: 16  # of training
train:
  micro_batch_size: 8
  "optimizer": AdamW
  grad_checkpointing: false
  betas: [0.9, 0.95]
eval:
    batch_size: 4
note: |
  no setting
"""
TOML = """\
batch_size = 16 # of training
betas = [0.9, 0.95]
[train]
micro_batch_size = 8
optimizer = "AdamW"
grad_checkpointing = false
[eval]
batch_size = 4
"""
JSON = """\
{"batch_size": 16, "betas": [0.9, {"batch_size": 3}],
 "train": {"micro_batch_size": 8, "optimizer": "AdamW", "grad_checkpointing": false},
 "eval": {"batch_size": 4}}
"""
TEXTS = {"a.yaml": YAML, "a.toml": TOML, "a.json": JSON}
NAMES = {
    "batch_size": 16,
    "train.micro_batch_size": 8,
    "train.optimizer": "AdamW",
    "train.grad_checkpointing": False,
    "eval.batch_size": 4,
}


@pytest.mark.parametrize("name", TEXTS)
def test_settings_are_read_and_changed_in_place(name: str, tmp_path: Path) -> None:
    file, text = str(tmp_path / name), TEXTS[name]
    Path(file).write_text(text)
    found = {option.shown: option.value for option in settings.options(["train", f"--config={file}", "no.yaml"])}
    assert {key: value for key, value in found.items() if key != "note"} == NAMES
    for key, value, old, new in (
        ("eval.batch_size", "2", "4", "2"),
        ("train.grad_checkpointing", "True", "false", "true"),
        ("train.optimizer", "Adafactor", "AdamW", "Adafactor"),
    ):
        assert settings.changed(file, text, key, value) == text.replace(old, new) or text.count(old) > 1
        texts: dict[str, str] = {}
        edits.apply((Edit(file, setting=(key, value)),), texts)
        Path(file).write_text(texts[file])
        again = {option.shown: option.value for option in settings.options([file])}
        Path(file).write_text(text)
        assert {k: v for k, v in again.items() if found[k] != v} == {key: {"2": 2, "True": True}.get(value, value)}
    assert settings.changed(file, text, "eval.micro_batch_size", "2") == ""


def test_a_copy_of_the_file_is_run(tmp_path: Path) -> None:
    file = str(tmp_path / "a.yaml")
    Path(file).write_text(YAML)
    command = ("train", f"--config={file}")
    texts = {file: settings.changed(file, YAML, "train.micro_batch_size", "2")}
    assert copies.can_copy(command, texts)
    with copies.copied(command, texts) as copy:
        changed = copy[1].removeprefix("--config=")
        assert Path(changed).name == "a.yaml"
        assert Path(changed).read_text() == YAML.replace("micro_batch_size: 8", "micro_batch_size: 2")
    assert Path(file).read_text() == YAML
    options = BatchOptions.find(settings.options(command))
    assert options is not None
    assert options.wanted == 8  # that of training, of the smallest part
