"""How a script branches on a value that it reads."""

import itertools
import sys
from typing import Any

from coopsim.record.observe.syntax import Use, use


class Value:
    """Remembers what is done with it where its truth is asked for, and is true after some times."""

    def __init__(self, times: int = 0) -> None:
        self.times, self.seen = times, set[Any]()

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        found = use(frame)
        line = found.line - frame.f_code.co_firstlineno if found and found.line else 0
        self.seen.add(found and (found.kind, found.negated, line, found.alone))
        self.times -= 1
        return self.times < 0

    def item(self) -> bool:
        return bool(self)


def test_guards_and_exits() -> None:
    def guard(v: Value) -> None:
        if v:
            v.times += 1

    def one_line(v: Value) -> None:
        if not v:
            v.times += 1

    def leaves(v: Value) -> int:
        if not (v):
            return 1
        return 2

    def fails(v: Value) -> None:
        if v.times > 5 or v:
            raise ValueError

    def fails_by_call(v: Value) -> None:
        if v:
            v._assert(False, "degenerate boxes")  # as torchvision says it, by torch._assert

    def asserts(v: Value) -> None:
        assert not v or v.times, "no"

    def keeps(v: Value) -> bool:
        return bool(v)

    wants: list[tuple[Any, Any]] = [
        (guard, ("guard", False, 0, False)),
        (one_line, ("guard", True, 0, False)),
        (leaves, ("exit", True, 0, False)),
        (fails, ("raise", False, 0, False)),
        (fails_by_call, ("raise", False, 0, False)),
        (asserts, ("assert", True, 0, False)),
        (keeps, None),
    ]
    for function, want in wants:
        value = Value(times=1)
        function(value)
        assert value.seen == {want}, function.__name__


def test_loops() -> None:
    def by_test(v: Value) -> None:
        while not v:
            pass

    def by_two(v: Value, n: int = 0) -> None:
        while not v and n < 9:
            n += 1

    def by_break(v: Value) -> None:
        while True:
            if v:
                break

    def with_another_end(v: Value, n: int = 0) -> None:
        while True:
            n += 1
            if v:
                break
            if n > 9:
                break

    def counting(v: Value) -> None:
        for _ in itertools.count():
            if v:
                break

    def that_ends(v: Value) -> None:
        for _ in range(9):
            if v:
                break

    wants: list[tuple[Any, Any]] = [
        (by_test, ("while", True, 1, True)),
        (by_two, ("while", True, 1, False)),
        (by_break, ("break", False, 1, True)),
        (with_another_end, ("break", False, 1, False)),
        (counting, ("break", False, 1, True)),
        (that_ends, ("break", False, 0, False)),
    ]
    for function, want in wants:
        value = Value(times=2)
        function(value)
        assert value.seen == {want}, function.__name__


def test_code_without_a_source_is_not_understood() -> None:
    found: list[Use | None] = []
    exec("while look(): pass", {"look": lambda: found.append(use(sys._getframe(1)))})  # noqa: S102
    assert found == [None]
