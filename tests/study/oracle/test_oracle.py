"""The simulated caching allocator against the real one, of the versions that can be had here without a download."""

from collections.abc import Iterator

import pytest

from coopsim.study.oracle import Oracle, OracleError, available, oracle
from tests.study.oracle import compare
from tests.study.oracle.confs import draw_conf
from tests.study.oracle.fuzz import is_newer
from tests.study.oracle.pools import draw_with_pools
from tests.study.oracle.streams import CLASSES, Stream, draw


@pytest.fixture(scope="module")
def real() -> Iterator[Oracle]:
    """The oracle of the installed torch, or of the newest one in the cache."""
    if not available():
        pytest.skip("no CUDA build of torch is installed")
    try:
        yield oracle(available()[-1])
    except OracleError as e:
        pytest.skip(str(e))


@pytest.mark.parametrize("streams", [1, 4])
@pytest.mark.parametrize("name", CLASSES)
def test_random_streams(real: Oracle, name: str, streams: int) -> None:
    if not is_newer(real.version, CLASSES[name][1]):
        pytest.skip(f"torch {real.version} does not know these settings")
    stream = draw(name, "test", 1000, streams)
    assert compare.difference(stream, real) is None


@pytest.mark.parametrize("name", CLASSES)
def test_random_streams_in_private_pools(real: Oracle, name: str) -> None:
    if not is_newer(real.version, CLASSES[name][1]):
        pytest.skip(f"torch {real.version} does not know these settings")
    stream = draw_with_pools(name, "test", 1000, 3)
    assert any(op[0] in "bc" for op in stream.ops)
    assert compare.difference(stream, real) is None
    assert any(" pool " in line for line in compare.simulate(stream, real.version))


def test_random_settings(real: Oracle) -> None:
    for k in range(50):
        stream = draw_conf(f"test {k}")
        assert compare.difference(stream, real) is None, stream.conf


@pytest.mark.slow
@pytest.mark.parametrize("version", available())
@pytest.mark.parametrize("name", CLASSES)
def test_many_random_streams(name: str, version: str) -> None:
    """100 000 requests on one stream and on several, and as many in pools; `python -m tests.study.oracle.fuzz`
    counts.
    """
    if not is_newer(version, CLASSES[name][1]):
        pytest.skip(f"torch {version} does not know these settings")
    real = oracle(version)
    for streams, k in ((n, k) for n in (1, 2, 4, 9) for k in range(25 if n > 1 else 75)):
        for stream in (draw(name, f"slow {k}", 1334, streams), draw_with_pools(name, f"slow {k}", 1334, streams)):
            if compare.difference(stream, real):
                small = compare.shrink(stream, real)
                pytest.fail(f"{small.case()}\n{compare.difference(small, real)}")


def test_a_difference_is_shrunk() -> None:
    """A simulation that is wrong only where streams are recorded: what is left is one allocation, recorded once."""

    class Same:
        version = "2.15.0"

        def ask(self, conf: str, total: int, requests: list[str]) -> list[str]:
            answer = compare.simulate(Stream(conf, total, requests), self.version)
            return [*answer, "more"] if any(r.startswith("r") for r in requests) else answer

    stream = draw("default", "shrink", 300, 2)
    assert any(op.startswith("r") for op in stream.ops)
    small = compare.shrink(stream, Same())  # type: ignore[arg-type]
    assert [op[0] for op in small.ops] == ["a", "r"]
