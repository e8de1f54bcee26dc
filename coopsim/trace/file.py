"""Traces as files: Parquet + zstd, one row per record (storages, then ops and frees in program order).

The provenance header is JSON in the Parquet metadata, under the key `coopsim`. docs/reference/files.md has the columns.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coopsim.base.files import replacing
from coopsim.trace.checks import TraceError, check, event_rows
from coopsim.trace.ragged import Ragged
from coopsim.trace.table import LISTS, NUMBERS, SCHEMA_VERSION, Trace

_WORD = pa.dictionary(pa.int32(), pa.string())
_LIST = pa.list_(pa.int64())
_SCHEMA = pa.schema(
    [
        ("record", _WORD),  # storage, op or free
        ("storage", pa.int32()),  # storage and free rows
        ("bytes", pa.int64()),  # storage rows, with the next three
        ("role", _WORD),
        ("alive_at_start", pa.bool_()),
        ("becomes", pa.int32()),
        ("step", pa.int32()),  # op rows, with all that follow
        ("name", _WORD),
        ("phase", _WORD),
        ("module", _WORD),
        ("stream", pa.int32()),
        ("reads", _LIST),
        ("mutates", _LIST),
        ("creates", _LIST),
        ("temporaries", _LIST),
        ("requests", _LIST),  # since schema 2
        ("cost_ns", pa.int64()),
        ("flops", pa.int64()),
        ("bytes_moved", pa.int64()),
        ("random", pa.bool_()),
        ("peers", pa.int32()),  # since schema 3
    ]
)
_WITH_PEERS = 3
_WITHOUT_PEERS = pa.schema([field for field in _SCHEMA if field.name != "peers"])


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Write it, whole or not at all. CoopsimError if the path cannot be written."""
    with replacing(path) as part:
        pq.write_table(table, part, compression="zstd", compression_level=19)


def arrow(values: NDArray[Any]) -> pa.Array:
    """Numbers as Arrow has them. `pa.array` would import pandas, a quarter of a second."""
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, data])


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace as a file (docs/reference/files.md), whole or not at all.

    CoopsimError for the first row that cannot be (as TraceBuilder.build), and if it cannot be written. A schedule
    has its own `save`.
    """
    if not isinstance(trace, Trace):
        raise TraceError(f"{trace!r} is no trace")
    check(trace)
    ops, frees = event_rows(trace)
    n_rows = trace.n_storages + trace.n_ops + len(trace.freed)
    storages = np.arange(trace.n_storages)

    def spread(rows: np.ndarray, values: Any, dtype: pa.DataType) -> pa.Array:
        """`values` at `rows`, null elsewhere."""
        at = np.full(n_rows, -1)
        at[rows] = np.arange(len(rows))
        plain = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
        spreaded = pa.array(values, plain).take(pa.array(at, mask=at < 0))
        return spreaded.dictionary_encode() if pa.types.is_dictionary(dtype) else spreaded

    record = np.full(n_rows, "op", dtype=object)
    record[storages], record[frees] = "storage", "free"
    columns: dict[str, pa.Array] = {
        "record": pa.array(record, pa.string()).dictionary_encode(),
        "storage": spread(np.concatenate([storages, frees]), np.concatenate([storages, trace.freed]), pa.int32()),
        "bytes": spread(storages, trace.bytes, pa.int64()),
        "role": spread(storages, trace.role, _WORD),
        "alive_at_start": spread(storages, trace.alive_at_start, pa.bool_()),
        "becomes": spread(storages, trace.becomes, pa.int32()),
        "random": spread(ops, trace.random, pa.bool_()),
    }
    for field in NUMBERS:
        columns[field] = spread(ops, getattr(trace, field), _SCHEMA.field(field).type)
    for field in ("name", "phase", "module"):
        columns[field] = spread(ops, getattr(trace, field), _WORD)
    for field in LISTS:
        ragged: Ragged = getattr(trace, field)
        columns[field] = spread(ops, pa.ListArray.from_arrays(ragged.start.astype(np.int32), ragged.values), _LIST)
    # without collectives the file is as it was before there were any
    schema, version = (_SCHEMA, SCHEMA_VERSION) if trace.has_collectives else (_WITHOUT_PEERS, _WITH_PEERS - 1)
    header = dict(trace.header) | {"schema_version": version, "content_hash": trace.content_hash}
    schema = schema.with_metadata({b"coopsim": json.dumps(header, sort_keys=True).encode()})
    write_parquet(pa.table([columns[name] for name in schema.names], schema=schema), path)


def load(path: str | Path) -> Trace:
    """Read and check a trace. Raises TraceError with the reason if it is missing, foreign, damaged or contradictory."""
    table, header = read_parquet(path, "trace")
    if "schema_version" not in header:
        what = "a schedule" if "schedule_version" in header else "no schema_version in its header"
        raise TraceError(f"{path}: not a coopsim trace ({what})")
    if header["schema_version"] > SCHEMA_VERSION:
        raise TraceError(
            f"{path}: trace schema {header['schema_version']} is newer than this coopsim ({SCHEMA_VERSION}); upgrade"
        )
    if header["schema_version"] == 1 and "requests" not in table.column_names:
        none = pa.array([[] if kind == "op" else None for kind in table.column("record").to_pylist()], _LIST)
        table = table.append_column("requests", none)
    schema = _SCHEMA if header["schema_version"] >= _WITH_PEERS else _WITHOUT_PEERS
    absent = [name for name in schema.names if name not in table.column_names]
    if absent:
        raise TraceError(f"{path}: not a coopsim trace (columns missing: {', '.join(absent)})")
    try:
        table = table.select(schema.names)
        if not table.schema.equals(schema):  # casting imports Arrow's compute functions, a tenth of a second
            table = table.cast(schema)
        table = table.combine_chunks()
        trace = _from_table(table, header)
    except (pa.ArrowException, ValueError, TypeError) as e:
        raise TraceError(f"{path}: malformed: {str(e).splitlines()[0]}") from None
    del table
    pa.default_memory_pool().release_unused()  # of a million ops, 370 MB
    try:
        check(trace)
    except TraceError as e:
        raise TraceError(f"{path}: {e}") from None
    if header.get("content_hash") != trace.content_hash:
        raise TraceError(f"{path}: rows do not match the hash in the header: damaged or edited")
    return trace


def header_of(path: str | Path) -> dict[str, Any]:
    """The header of a coopsim Parquet file, without reading the rest; {} for anything else."""
    try:
        with pq.ParquetFile(path) as source:
            header = json.loads((source.schema_arrow.metadata or {})[b"coopsim"])
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return {}
    return header if isinstance(header, dict) else {}


def read_parquet(path: str | Path, what: str) -> tuple[pa.Table, dict[str, Any]]:
    """A coopsim Parquet file as (table, header); TraceError in one line if it is not one."""
    path = Path(path)
    if not path.exists():
        raise TraceError(f"{path}: no such file")
    if path.is_dir():
        raise TraceError(f"{path}: is a directory, not a {what} file")
    try:
        with pq.ParquetFile(path) as source:  # read_table would import pandas, half a second
            table = source.read()
    except (pa.ArrowException, OSError) as e:
        with open(path, "rb") as file:
            is_pickle = file.read(1) == b"\x80"  # of protocol 2 or newer, as PyTorch's snapshots are
        why = "a pickle; import a memory snapshot first: coopsim import torch-snapshot" if is_pickle else str(e)
        raise TraceError(f"{path}: not a {what} file ({why.splitlines()[0]})") from None
    try:
        header = json.loads((table.schema.metadata or {})[b"coopsim"])
    except (KeyError, ValueError):
        raise TraceError(f"{path}: Parquet, but not written by coopsim") from None
    if not isinstance(header, dict):
        raise TraceError(f"{path}: the header is not an object")
    return table, header


def _bits(buffer: pa.Buffer, values: pa.Array) -> Any:
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
    return bits[values.offset : values.offset + len(values)].astype(np.bool_)


def _present(values: pa.Array) -> Any:
    """Which of them are not null."""
    validity = values.buffers()[0]
    return np.ones(len(values), np.bool_) if validity is None else _bits(validity, values)


def _plain(values: pa.Array) -> Any:
    """Numbers or flags; anything where a null is."""
    data = values.buffers()[1]
    if pa.types.is_boolean(values.type):
        return _bits(data, values)
    found = np.frombuffer(data, values.type.to_pandas_dtype())
    return found[values.offset : values.offset + len(values)]


def _positions(words: list[str], wanted: Sequence[str]) -> list[int]:
    return [k for k, word in enumerate(words) if word in wanted]


def _from_table(table: pa.Table, header: dict[str, Any]) -> Trace:
    # Arrow's own conversions import pandas or its compute functions, tenths of a second: hence the buffers.
    recorded = table.column("record").combine_chunks()
    if recorded.null_count:
        raise ValueError("a row without a record")
    records, record = [str(w) for w in recorded.dictionary.to_pylist()], _plain(recorded.indices)
    rows = {kind: np.flatnonzero(np.isin(record, _positions(records, [kind]))) for kind in ("storage", "op", "free")}
    if sum(map(len, rows.values())) != len(record):
        raise ValueError(f"unknown record {next(str(r) for r in records if r not in rows)!r}")
    if not np.array_equal(rows["storage"], np.arange(len(rows["storage"]))):
        raise ValueError("storage rows must come first")

    def take(name: str, *kinds: str) -> tuple[pa.Array, Any]:
        """A column, which must have a value in all rows of these kinds and in no others, and in which rows it has."""
        values = table.column(name).combine_chunks()
        here = _present(values)
        due = np.isin(record, _positions(records, kinds))
        if not np.array_equal(here, due):
            row = int(np.argmax(here != due))
            raise ValueError(f"row {row}: {'no' if due[row] else 'unexpected'} {name} in a {records[record[row]]} row")
        return values, here

    def numbers(name: str, *kinds: str) -> Any:
        values, here = take(name, *(kinds or ("op",)))
        return _plain(values)[here].astype(np.int64)

    def flags(name: str, kind: str = "op") -> Any:
        values, here = take(name, kind)
        return _plain(values)[here]

    def words(name: str, kind: str = "op") -> list[str]:
        values, here = take(name, kind)
        vocabulary = [str(word) for word in values.dictionary.to_pylist()]
        return [vocabulary[k] for k in _plain(values.indices)[here].tolist()]

    def lists(name: str) -> Any:
        values, here = take(name, "op")
        if values.values.null_count:
            raise ValueError(f"a null inside {name}")
        offsets = np.from_dlpack(values.offsets)
        lengths = np.diff(offsets)
        items = _plain(values.values)[offsets[0] : offsets[-1]][np.repeat(here, lengths)]
        return Ragged(np.concatenate([[0], np.cumsum(lengths[here], dtype=np.int64)]), items)

    named = numbers("storage", "storage", "free")
    if not np.array_equal(named[: len(rows["storage"])], rows["storage"]):
        raise ValueError("storage ids must count up from 0")
    return Trace(
        bytes=numbers("bytes", "storage"),
        role=words("role", "storage"),
        alive_at_start=flags("alive_at_start", "storage"),
        becomes=numbers("becomes", "storage"),
        name=words("name"),
        phase=words("phase"),
        module=words("module"),
        random=flags("random"),
        peers=numbers("peers") if "peers" in table.column_names else np.zeros(len(rows["op"]), np.int64),
        **{name: numbers(name) for name in NUMBERS if name != "peers"},
        **{name: lists(name) for name in LISTS},
        freed=named[len(rows["storage"]) :],
        freed_after=np.searchsorted(rows["op"], rows["free"]) - 1,
        header={k: v for k, v in header.items() if k not in ("content_hash", "schema_version")},
    )
