"""What a loop keeps from iteration to iteration is called growth, and what one step needs is not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trace.snapshot.history import MODULE, OPTIMIZER, History

TRAINER = "/venv/lib/python3.11/site-packages/transformers/trainer.py"
MAIN = ("/home/me/train.py", 90, "<module>")


def _at(line: int, name: str = "main") -> tuple[str, int, str]:
    return ("/home/me/train.py", line, name)


def _layer(line: int) -> tuple[tuple[str, int, str], ...]:
    return (("/home/me/net.py", line, "forward"), MODULE)


def _setup(h: History) -> None:
    for line in (3, 4, 5):
        h.take(12, _at(line), MAIN)


def _step(h: History, i: int, *, grows: int = 0) -> None:
    """A batch, two layers, a backward pass without Python; what is made is freed, but for what grows."""
    made = [h.take(14, _at(20), MAIN)]
    made += [h.take(16, *_layer(7), _at(21), MAIN), h.take(16, *_layer(8), _at(21), MAIN)]
    made += [h.take(18)]
    if grows:
        h.take(grows, _at(23), MAIN)
    if i == 0:
        for _ in range(3):
            h.take(20, ("/home/me/optim.py", 40, "step"), OPTIMIZER, _at(24), MAIN)
    for address in made:
        h.give(address)


def _list_of_results(h: History) -> None:
    _setup(h)
    for i in range(9):
        _step(h, i, grows=22)


def _whole_graphs(h: History) -> None:
    """Nothing is ever freed: results with their graphs, of a model that one line calls."""
    _setup(h)
    for _ in range(8):
        h.take(14, _at(30), MAIN)
        for layer in (7, 8, 9):
            h.take(16, *_layer(layer), _at(30), MAIN)


def _inside_a_function(h: History) -> None:
    """The loop's only line calls a function, and that keeps what it makes."""
    _setup(h)
    for _ in range(8):
        h.give(h.take(16, *_layer(7), _at(41, "train_step"), _at(50), MAIN))
        h.take(14, _at(42, "train_step"), _at(50), MAIN)


def _in_a_library(h: History) -> None:
    """A Trainer's loop, which calls back."""
    library = (TRAINER, 0, "_inner_training_loop")
    _setup(h)
    for _ in range(8):
        h.give(h.take(14, (library[0], 100, "get_batch"), library, _at(60), MAIN))
        h.give(h.take(16, *_layer(7), (library[0], 200, "training_step"), library, _at(60), MAIN))
        h.take(14, (library[0], 300, "log"), library, _at(60), MAIN)


#: Where the last request comes from, if not from the forward pass of `_step`.
ENDS = {
    _whole_graphs: (*_layer(7), _at(30), MAIN),
    _inside_a_function: (*_layer(7), _at(41, "train_step"), _at(50), MAIN),
    _in_a_library: (*_layer(7), (TRAINER, 200, "training_step"), (TRAINER, 0, "_inner_training_loop"), _at(60), MAIN),
}


@pytest.mark.parametrize("story", [_list_of_results, _whole_graphs, _inside_a_function, _in_a_library])
def test_growth(story: Callable[[History], None], tmp_path: Path, coopsim: Any) -> None:
    advice = _advice(story, tmp_path, coopsim)
    assert advice["cause"] == "growth"
    assert advice["growth"]["nbytes"] > 80 << 20
    said = coopsim("advise", tmp_path / "s.pickle").out
    assert "growth: a loop keeps memory from iteration to iteration (a leak, unless all of it is needed)" in said
    assert "earlier iterations of the loop at" in said
    assert "fragmentation" not in said


def test_lines_that_are_named(tmp_path: Path, coopsim: Any) -> None:
    growth = _advice(_list_of_results, tmp_path, coopsim)["growth"]
    # What a line made the last time may be of the iteration that runs, and does not count.
    assert (growth["iterations"], growth["nbytes"]) == (10, 8 * 22 << 20)
    assert growth["holders"] == ["train.py:23 main"]
    assert growth["line"] == "train.py:21 main"


def _first_step(h: History) -> None:
    """One pass through as many layers as the memory holds."""
    _setup(h)
    for _ in range(30):
        h.take(16, *_layer(7), *_layer(50), _at(21), MAIN)


def _optimizer_state(h: History) -> None:
    """An optimizer of the user's own makes its state, with temporaries, in the first step."""
    _setup(h)
    for _ in range(20):
        h.take(20, ("/home/me/optim.py", 40, "step"), OPTIMIZER, _at(24), MAIN)
        h.give(h.take(24, ("/home/me/optim.py", 41, "step"), OPTIMIZER, _at(24), MAIN))
        h.take(20, ("/home/me/optim.py", 42, "step"), OPTIMIZER, _at(24), MAIN)


def _parameters(h: History) -> None:
    """A library builds a model on the GPU, layer by layer."""
    linear = "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py"
    for _ in range(20):
        h.take(20, (linear, 106, "__init__"), _at(2), MAIN)
        h.take(12, (linear, 110, "__init__"), _at(2), MAIN)


def _steps_alike(h: History) -> None:
    _setup(h)
    for i in range(9):
        _step(h, i)


def _kept_once(h: History) -> None:
    """Two results of the first iterations are kept: an average of parameters, for one."""
    _setup(h)
    for i in range(9):
        _step(h, i, grows=22 * (i < 2))


@pytest.mark.parametrize("story", [_first_step, _optimizer_state, _parameters, _steps_alike, _kept_once])
def test_no_growth(story: Callable[[History], None], tmp_path: Path, coopsim: Any) -> None:
    advice = _advice(story, tmp_path, coopsim)
    assert advice["growth"] is None
    assert advice["cause"] not in ("", "growth")


def _advice(story: Callable[[History], None], tmp_path: Path, coopsim: Any) -> dict[str, Any]:
    h = History()
    story(h)
    h.run_out(96, *ENDS.get(story, (*_layer(7), _at(21), MAIN)))
    code, out, err = coopsim("advise", h.write(tmp_path / "s.pickle"), "--json")
    assert code in (0, 3), err
    return json.loads(out)


def test_a_line_without_python_is_told_by_the_one_before(tmp_path: Path, coopsim: Any) -> None:
    h = History()
    _setup(h)
    h.take(16, *_layer(7), _at(21), MAIN)
    h.run_out(18)
    said = coopsim("advise", h.write(tmp_path / "s.pickle")).out
    assert "ran out  for 18 MiB at no line of Python, after net.py:7 forward" in said
