"""Traces: they come back from a file as they went in, and a wrong one is refused with the row and the reason."""

import json
import pickle
import tomllib
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from coopsim.base.types import CoopsimError, Phase, Role
from coopsim.simulate.replay import replay
from coopsim.trace import SCHEMA_VERSION, Ragged, Trace, TraceBuilder, check, load, load_trace, save
from coopsim.trace import schedule as schedules
from coopsim.trace.checks import TraceError
from coopsim.trace.named import shipped
from coopsim.trace.synth import chain, unet
from tests.strategies import traces


def small() -> TraceBuilder:
    """Three storages (rows 0 to 2), two ops (3 and 5) and two frees (4 and 6)."""
    b = TraceBuilder()
    x = b.storage(1024, Role.INPUT, alive_at_start=True)
    y, z = b.storage(700), b.storage(0)
    b.op(
        "aten.relu.default",
        reads=[x],
        creates=[y, z],
        temporaries=[5, 0],
        requests=[5, -1, -3, -2],
        cost_ns=3,
        module="layer.0",
        random=True,
    )
    b.free(z)
    b.op(
        "aten.add_.Tensor",
        reads=[y],
        mutates=[x],
        cost_ns=4,
        flops=9,
        bytes_moved=2000,
        phase=Phase.BACKWARD,
        stream=1,
        peers=8,
    )
    b.free(y)
    return b


def trace() -> Trace:
    return small().build({"model": "small", "batch": 4})


def alone() -> Trace:
    """Of one card."""
    return replace(trace(), peers=np.zeros(2, np.int64))


def same(a: Trace, b: Trace) -> bool:
    for f in fields(Trace):
        one, two = getattr(a, f.name), getattr(b, f.name)
        if isinstance(one, Ragged):
            one, two = one.rows(), two.rows()
        if not (np.array_equal(one, two) if isinstance(one, np.ndarray) else one == two):
            return False
    return True


class TestRoundTrip:
    def test_small(self, tmp_path: Path) -> None:
        save(trace(), tmp_path / "t.parquet")
        back = load(tmp_path / "t.parquet")
        assert same(back, trace())
        assert back.header == {"model": "small", "batch": 4}
        assert [f.name for f in tmp_path.iterdir() if f != tmp_path] == ["t.parquet"]

    @settings(max_examples=50, deadline=None)
    @given(traces())
    def test_any(self, tmp_path_factory: pytest.TempPathFactory, any_trace: Trace) -> None:
        path = tmp_path_factory.mktemp("any") / "t.parquet"
        save(any_trace, path)
        assert same(load(path), any_trace)

    def test_same_bytes(self, tmp_path: Path) -> None:
        for name in "ab":
            save(unet(3, weight=512), tmp_path / name)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_pandas_reads_it(self, tmp_path: Path) -> None:
        save(trace(), tmp_path / "t.parquet")
        table = pd.read_parquet(tmp_path / "t.parquet")
        assert table.record.tolist() == ["storage"] * 3 + ["op", "free", "op", "free"]
        assert table.bytes.dropna().tolist() == [1024, 700, 0]
        assert table.cost_ns.sum() == 7
        assert table.creates.dropna().tolist()[0].tolist() == [1, 2]
        header = json.loads(pq.read_schema(tmp_path / "t.parquet").metadata[b"coopsim"])
        assert header["content_hash"] == trace().content_hash
        assert header["schema_version"] == SCHEMA_VERSION

    def test_schema_1(self, tmp_path: Path) -> None:
        """It had no requests, and a hash without them."""
        path, plain = tmp_path / "t.parquet", replace(alone(), requests=Ragged.of([[], []]))
        save(plain, path)
        rewrite(path, lambda table: table.drop_columns("requests"), schema_version=1)
        assert same(load(path), plain)

    def test_schema_2(self, tmp_path: Path) -> None:
        """It had no peers, and is what a trace without collectives is still written as."""
        save(alone(), tmp_path / "t.parquet")
        found = pq.read_schema(tmp_path / "t.parquet")
        assert json.loads(found.metadata[b"coopsim"])["schema_version"] == 2
        assert "peers" not in found.names
        assert same(load(tmp_path / "t.parquet"), alone())
        rewrite(tmp_path / "t.parquet", lambda table: table, schema_version=3)
        with pytest.raises(TraceError, match="columns missing: peers"):
            load(tmp_path / "t.parquet")

    def test_committed_traces(self) -> None:
        folder = Path(__file__).parents[2] / "traces"
        for card in (folder, folder / "h100"):
            manifest = tomllib.loads((card / "MANIFEST.toml").read_text())
            assert {name: load(card / name).content_hash for name in manifest} == {
                path.name: manifest[path.name]["content_hash"] for path in card.glob("*.parquet")
            }

    def test_measured_ones_have_names(self) -> None:
        """Of the eight of Coop's paper, each beside the phantom's, which it is not mistaken for in a table."""
        measured = [name for name in shipped() if "@" in name]
        assert len(measured) == 8
        for name in measured:
            found, modelled = load_trace(name), load_trace(name.partition("@")[0])
            assert found.label == name
            assert found.header["cost_source"].startswith("measured on an NVIDIA H100")
            assert modelled.header["batch"] == found.header["batch"]
            at_start = set(np.flatnonzero(found.alive_at_start).tolist())
            assert at_start == set(found.becomes[found.becomes >= 0].tolist())  # so that steps repeat


class TestHash:
    def test_it_is_of_the_rows_and_not_of_the_header(self) -> None:
        assert trace().content_hash == replace(trace(), header={"model": "other"}).content_hash
        assert trace().content_hash.startswith("blake2b:")
        assert len(trace().content_hash) == len("blake2b:") + 32

    @pytest.mark.parametrize("name", [f.name for f in fields(Trace) if f.name != "header"])
    def test_every_column_counts(self, name: str) -> None:
        values = getattr(trace(), name)
        if isinstance(values, Ragged):
            other = Ragged.of([*values.rows()[:-1], [*values.rows()[-1], 0]])
        elif isinstance(values, list):
            other = [*values[:-1], values[-1] + "x"]
        else:
            other = np.append(values[:-1], ~values[-1] if values.dtype == np.bool_ else values[-1] + 1)
        assert replace(trace(), **{name: other}).content_hash != trace().content_hash

    def test_lists_do_not_run_into_each_other(self) -> None:
        def reading(*reads: list[int]) -> str:
            return replace(trace(), reads=Ragged.of(reads)).content_hash

        assert reading([0, 1], []) != reading([0], [1])


def column(name: str, at: int, value: object) -> Callable[[Trace], Trace]:
    """The trace with one number or word changed."""

    def change(t: Trace) -> Trace:
        values = getattr(t, name)
        if isinstance(values, Ragged):
            rows = values.rows()
            rows[at] = value  # type: ignore[call-overload]
            return replace(t, **{name: Ragged.of(rows)})
        values = values.copy()
        values[at] = value
        return replace(t, **{name: values})

    return change


MALFORMED = {
    "negative bytes": (column("bytes", 1, -4), "row 1: negative bytes (-4)"),
    "negative cost": (column("cost_ns", 1, -1), "row 5: negative cost_ns (-1)"),
    "negative flops": (column("flops", 0, -1), "row 3: negative flops (-1)"),
    "negative bytes moved": (column("bytes_moved", 0, -1), "row 3: negative bytes_moved (-1)"),
    "negative stream": (column("stream", 0, -1), "row 3: negative stream (-1)"),
    "negative step": (column("step", 0, -1), "row 3: negative step (-1)"),
    "negative temporary": (column("temporaries", 0, [5, -6]), "row 3: negative temporary (-6)"),
    "gives back what it has not": (
        column("requests", 0, [-1, -2, -3]),
        "row 3: op 0 (aten.relu.default) has an impossible request (-3)",
    ),
    "takes the same twice": (
        column("requests", 0, [-1, 5, -1]),
        "row 3: op 0 (aten.relu.default) has an impossible request (-1)",
    ),
    "takes too little": (
        column("requests", 0, [5, -2]),
        "row 3: op 0 (aten.relu.default) creates more than it requests",
    ),
    "unknown role": (column("role", 2, "ghost"), "row 2: unknown role 'ghost'"),
    "unknown phase": (column("phase", 1, "sideways"), "row 5: unknown phase 'sideways'"),
    "a step left out": (column("step", 1, 2), "row 5: steps out of order"),
    "a step back": (lambda t: replace(t, step=np.array([1, 0])), "row 5: steps out of order"),
    "reads what is not": (column("reads", 0, [7]), "row 3: unknown storage 7 (the trace has 3)"),
    "reads a negative": (column("reads", 0, [-1]), "row 3: unknown storage -1 (the trace has 3)"),
    "mutates what is not": (column("mutates", 1, [3]), "row 5: unknown storage 3 (the trace has 3)"),
    "creates what is not": (column("creates", 0, [1, 2, 9]), "row 3: unknown storage 9 (the trace has 3)"),
    "frees what is not": (column("freed", 1, 8), "row 6: unknown storage 8 (the trace has 3)"),
    "reads before creation": (
        column("reads", 0, [1]),
        "row 3: op 0 (aten.relu.default) reads storage 1 before anything created it",
    ),
    "reads after free": (column("reads", 1, [2]), "row 5: op 1 (aten.add_.Tensor) reads storage 2 after it was freed"),
    "mutates after free": (
        column("mutates", 1, [2]),
        "row 5: op 1 (aten.add_.Tensor) mutates storage 2 after it was freed",
    ),
    "creates twice": (
        column("creates", 1, [1]),
        "row 5: op 1 (aten.add_.Tensor) creates storage 1, which exists already",
    ),
    "creates what is there": (
        column("creates", 1, [0]),
        "row 5: op 1 (aten.add_.Tensor) creates storage 0, which exists already",
    ),
    "double free": (column("freed", 1, 2), "row 6: double free of storage 2"),
    "free before creation": (
        lambda t: replace(t, freed_after=np.array([-1, 1])),
        "row 3: storage 2 is freed before anything created it",
    ),
    "becomes what is not": (column("becomes", 0, 5), "row 0: becomes unknown storage 5"),
    "becomes what was not": (column("becomes", 0, 1), "row 0: becomes storage 1, which is not alive at the start"),
    "a freed one becomes": (
        column("becomes", 1, 0),
        "row 1: storage 1 should become 0, but it is freed before the end",
    ),
}


class TestMalformed:
    def test_well_formed(self) -> None:
        check(trace())

    def test_none_is_built(self) -> None:
        b = TraceBuilder()
        with pytest.raises(TraceError, match="the trace has no ops"):
            b.build({})
        b.op("aten.relu.default", reads=[7])
        with pytest.raises(TraceError, match="unknown storage 7"):
            b.build({})

    @pytest.mark.parametrize(("change", "message"), MALFORMED.values(), ids=MALFORMED)
    def test_refused(self, change: Callable[[Trace], Trace], message: str, tmp_path: Path) -> None:
        bad = change(trace())
        with pytest.raises(TraceError) as caught:
            check(bad)
        assert str(caught.value) == message
        with pytest.raises(TraceError):
            save(bad, tmp_path / "t.parquet")
        assert not list(tmp_path.iterdir())

    def test_becomes_one_of_another_size_or_one_taken(self) -> None:
        b = TraceBuilder()
        one, two, three = (b.storage(n, Role.INPUT, alive_at_start=True) for n in (4, 4, 8))
        b.op("aten.relu.default", reads=[one, two, three])
        b.becomes(one, three)
        with pytest.raises(TraceError, match="row 0: becomes storage 2 of another size"):
            check(b.build({}))
        b.becomes(one, two)
        with pytest.raises(TraceError, match="row 1: storage 1 has two predecessors"):
            check(b.build({}))

    def test_the_row_in_the_message_is_the_row_in_the_file(self, tmp_path: Path) -> None:
        """Written by someone who does not check."""
        save(trace(), tmp_path / "t.parquet")
        table = pq.read_table(tmp_path / "t.parquet")
        reads = table.column("reads").to_pylist()
        reads[5] = [2]
        at = table.column_names.index("reads")
        pq.write_table(table.set_column(at, "reads", pa.array(reads, pa.list_(pa.int64()))), tmp_path / "t.parquet")
        with pytest.raises(TraceError, match=r"row 5: op 1 .* reads storage 2 after it was freed"):
            load(tmp_path / "t.parquet")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(chain(20), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table], **header: object) -> None:
    """The file with another table or header, as if written so."""
    table = pq.read_table(path)
    old = json.loads(table.schema.metadata[b"coopsim"])
    new = {k: v for k, v in (old | header).items() if v is not None}
    pq.write_table(change(table).replace_schema_metadata({b"coopsim": json.dumps(new).encode()}), path)


class TestFiles:
    def refused(self, path: Path, message: str) -> None:
        """In one line that starts with the path, for traces and for schedules."""
        with pytest.raises(TraceError) as caught:
            load(path)
        assert isinstance(caught.value, CoopsimError)
        assert str(caught.value).startswith(f"{path}: ")
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_absent(self, tmp_path: Path) -> None:
        self.refused(tmp_path / "none.parquet", "no such file")

    def test_a_folder(self, tmp_path: Path) -> None:
        self.refused(tmp_path, "is a directory")

    @pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.99])
    def test_truncated(self, path: Path, share: float) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
        self.refused(path, "not a trace file")

    @pytest.mark.parametrize("content", [b"hello", b"PAR1" * 100, b'{"ops": []}', b"\0" * 5000])
    def test_something_else(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        self.refused(path, "not a trace file")

    def test_a_pickle_is_not_unpickled(self, path: Path) -> None:
        class Bomb:
            def __reduce__(self) -> tuple[object, ...]:
                return (Path.touch, (path.with_name("exploded"),))

        path.write_bytes(pickle.dumps(Bomb()))
        self.refused(path, "not a trace file")
        assert not path.with_name("exploded").exists()

    def test_damaged_inside(self, path: Path) -> None:
        """Any byte changed: refused, or of no consequence."""
        content = path.read_bytes()
        wanted = load(path)
        for at in range(4, len(content), 97):
            path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
            try:
                back = load(path)
            except TraceError:
                continue
            assert same(replace(back, header=wanted.header), wanted), at

    def test_foreign_parquet(self, path: Path) -> None:
        pd.DataFrame({"a": [1, 2]}).to_parquet(path)
        self.refused(path, "Parquet, but not written by coopsim")

    def test_header_that_is_none(self, path: Path) -> None:
        for header in (b"{", b"[]", b'"x"', b"\xff"):
            pq.write_table(pq.read_table(path).replace_schema_metadata({b"coopsim": header}), path)
            self.refused(path, "")

    def test_newer_schema(self, path: Path) -> None:
        rewrite(path, lambda table: table, schema_version=SCHEMA_VERSION + 1)
        self.refused(path, "newer than this coopsim")

    def test_no_version(self, path: Path) -> None:
        rewrite(path, lambda table: table, schema_version=None)
        self.refused(path, "not a coopsim trace")

    def test_a_schedule_is_no_trace_and_a_trace_no_schedule(self, path: Path, tmp_path: Path) -> None:
        t = load(path)
        schedules.save(replay(t, "lru", int(t.bytes.sum()), steps=1), tmp_path / "s.parquet")
        self.refused(tmp_path / "s.parquet", "not a coopsim trace")
        with pytest.raises(TraceError, match="not a coopsim schedule"):
            schedules.load(path)

    def test_a_column_left_out(self, path: Path) -> None:
        rewrite(path, lambda table: table.drop_columns(["cost_ns", "becomes"]))
        self.refused(path, "columns missing: becomes, cost_ns")

    def test_a_column_of_words_for_numbers(self, path: Path) -> None:
        rewrite(path, lambda t: t.set_column(2, "bytes", pa.array(["many"] * t.num_rows)))
        self.refused(path, "malformed")

    def test_a_null_where_there_must_be_a_number(self, path: Path) -> None:
        def hole(table: pa.Table) -> pa.Table:
            values = table.column("bytes").to_pylist()
            values[3] = None
            return table.set_column(2, "bytes", pa.array(values, pa.int64()))

        rewrite(path, hole)
        self.refused(path, "row 3: no bytes")

    def test_rows_out_of_order(self, path: Path) -> None:
        rewrite(path, lambda table: table.take(list(range(table.num_rows))[::-1]))
        self.refused(path, "storage rows must come first")

    def test_edited(self, path: Path) -> None:
        def dearer(table: pa.Table) -> pa.Table:
            values = [None if v is None else v + 1 for v in table.column("cost_ns").to_pylist()]
            return table.set_column(table.column_names.index("cost_ns"), "cost_ns", pa.array(values, pa.int64()))

        rewrite(path, dearer)
        self.refused(path, "damaged or edited")


class TestAtomicWrite:
    def test_nothing_half_written_is_left(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = path.read_bytes()

        def fail(table: pa.Table, where: str, **_: object) -> None:
            Path(where).write_bytes(b"half")
            raise OSError("no space left on device")

        monkeypatch.setattr(pq, "write_table", fail)
        with pytest.raises(CoopsimError, match="no space left"):
            save(chain(3), path)
        with pytest.raises(CoopsimError, match="no space left"):
            save(chain(3), path.with_name("new.parquet"))
        assert [f.name for f in path.parent.iterdir()] == [path.name]
        assert path.read_bytes() == before

    def test_interrupted(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(pq, "write_table", interrupt)
        with pytest.raises(KeyboardInterrupt):
            save(chain(3), path)
        assert [f.name for f in path.parent.iterdir()] == [path.name]

    def test_permissions_are_those_of_any_new_file(self, path: Path) -> None:
        path.with_name("plain").write_text("")
        assert path.stat().st_mode == path.with_name("plain").stat().st_mode


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({}, ""),
        ({"precision": "fp32", "products": "bf16 autocast"}, "bf16 autocast"),
        ({"precision": "fp32"}, "float32 products in fp32"),  # of a file, before there was `products`
        ({"precision": "tf32", "optimizer": "adam"}, "tf32"),  # of a reference model
        ({"precision": "tf32", "optimizer": "adam", "amp": "bf16"}, "bf16 autocast, float32 products in tf32"),
    ],
)
def test_precision_is_what_products_are_computed_in_as_far_as_it_is_known(header: dict[str, str], said: str) -> None:
    assert replace(chain(2), header=header).precision == said
