"""A program for the phantom GPU: call every function that gives something back, and say which parameters it left.

Each call is made in a fork. What a parameter points to is filled with POISON before; a stub must leave what
functions.toml says, and a function of csrc/ anything but POISON.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from coopsim.phantom import build, functions
from coopsim.phantom.functions import Function, Output

MOST = 24  #: parameters
POISON, ROOM = b"\xa5", 4096
BYTES = {"char": 1, "half": 2, "int": 4, "plan": 4, "float": 4, "cuDoubleComplex": 16}  #: others: 8
FRESH = ("handle", "plan", "text", "buffer")  #: not zero
Library = ctypes.CDLL


def made(library: Library, name: str, *arguments: int) -> int:
    """What a function that makes something gives."""
    out = ctypes.c_size_t()
    getattr(library, name)(ctypes.byref(out), *map(ctypes.c_size_t, arguments))
    return out.value


def mapped(library: Library) -> int:
    """An address that has memory."""
    granule = 2 << 20
    address = made(library, "cuMemAddressReserve", granule, 0, 0, 0)
    handle = made(library, "cuMemCreate", granule, 0, 0)
    library.cuMemMap(*map(ctypes.c_size_t, (address, granule, 0, handle, 0)))
    return address


def captured(library: Library) -> int:
    """A stream that is being captured."""
    stream = made(library, "cudaStreamCreate")
    library.cudaStreamBeginCapture(ctypes.c_size_t(stream), 0)
    return stream


ZEROS = ctypes.create_string_buffer(ROOM)
SYMBOL = ctypes.create_string_buffer(b"cuInit")
TENSOR = (ctypes.c_int * 10)(0, 1, 3)  # of one dimension (csrc/cudnn_rnn.c)
RELEASE_THRESHOLD = 4  #: an attribute of a pool that is no int


def blank(_: Library) -> int:
    """A descriptor of nothing."""
    return ctypes.addressof(ZEROS)


def symbol(_: Library) -> int:
    """The name of a function of the driver."""
    return ctypes.addressof(SYMBOL)


def communicator(library: Library) -> int:
    """Of one rank."""
    return made(library, "ncclCommInitRank", 1, 0)


#: What some parameters have to be: function, parameter -> who makes it. All others are 0.
ARGUMENTS: dict[tuple[str, int], Callable[[Library], int]] = {
    ("cudaEventElapsedTime", 1): lambda library: made(library, "cudaEventCreate"),
    ("cudaEventElapsedTime", 2): lambda library: made(library, "cudaEventCreate"),
    ("cudaStreamEndCapture", 0): captured,
    ("cuMemRetainAllocationHandle", 1): mapped,
    ("cuMemGetAddressRange", 2): mapped,
    ("cuMemGetAddressRange_v2", 2): mapped,
    ("cuMemAddressReserve", 1): lambda _: 2 << 20,
    ("cudaDeviceGetPCIBusId", 1): lambda _: 64,
    ("cudaGetDriverEntryPoint", 0): symbol,
    ("cudaGetDriverEntryPointByVersion", 0): symbol,
    ("cuGetProcAddress_v2", 0): symbol,
    ("cudaMemPoolGetAttribute", 1): lambda _: RELEASE_THRESHOLD,
    ("cudnnGetTensorNdDescriptor", 0): lambda _: ctypes.addressof(TENSOR),
    ("cudnnGetTensorNdDescriptor", 1): lambda _: 4,
    ("cudnnGetRNNWeightSpaceSize", 1): blank,
    ("cudnnGetRNNWeightParams", 1): blank,
    ("cudnnGetRNNTempSpaceSizes", 1): blank,
    ("cusparseSpMatGetSize", 0): blank,
    ("ncclCommInitRank", 1): lambda _: 1,
    ("ncclCommInitRankConfig", 1): lambda _: 1,
    ("ncclCommInitRankScalable", 1): lambda _: 1,
    ("ncclCommInitRankScalable", 4): blank,
    ("nvrtcGetLoweredName", 1): symbol,
    **{(f"ncclComm{what}", 0): communicator for what in ("Count", "UserRank", "CuDevice", "GetAsyncError", "Split")},
}


def left(library: Library, function: Function, *, is_stub: bool) -> list[str]:
    """What is wrong with a call."""
    call = getattr(library, function.name)
    call.restype = ctypes.c_int
    buffers = {out.parameter: ctypes.create_string_buffer(POISON * ROOM, ROOM) for out in function.outputs}
    arguments = []
    for n in range(MOST):
        given = ARGUMENTS.get((function.name, n))
        arguments.append(ctypes.addressof(buffers[n]) if n in buffers else given(library) if given else 0)
    for out in function.outputs:
        if out.size >= 0:
            arguments[out.size] = 24
    status = call(*map(ctypes.c_size_t, arguments))
    wrong = [f"returns {status}"] if status != function.returns else []
    for out in function.outputs:
        fault = _fault(out, buffers[out.parameter].raw, is_stub=is_stub)
        wrong += [f"parameter {out.parameter}: {fault}"] if fault else []
    return wrong


def _fault(out: Output, found: bytes, *, is_stub: bool) -> str:
    n = 24 if out.size >= 0 else BYTES.get(out.type, 8)
    if found[:n] == POISON * n or (n > 1 and POISON * 2 in found[:n]):
        return "not written"
    if is_stub and found[n:] != POISON * (ROOM - n):
        return "written beyond its type"
    if is_stub and out.type not in FRESH and any(found[:n]):
        return "not zero"
    if is_stub and out.type in FRESH[:3] and not any(found[:n]):
        return "zero"
    return ""


def main() -> None:
    """Call them all; print what is wrong, and how many were called."""
    folder, wrong, called = build.libraries(), {}, 0
    defined = set(sys.argv[1:])
    for file in sorted(Path(folder).glob("lib*.so.*")):
        library = ctypes.CDLL(str(file))
        for function in functions.of(file.name).values():
            if not function.outputs:
                continue
            called += 1
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                said = left(library, function, is_stub=function.name not in defined)
                os.write(writer, json.dumps(said).encode())
                os._exit(0)
            os.close(writer)
            _, status = os.waitpid(child, 0)
            with os.fdopen(reader) as pipe:
                text = pipe.read()
            said = json.loads(text) if text else [f"ends with status {status}"]
            if said:
                wrong[f"{file.name} {function.name}"] = said
    print(json.dumps([called, wrong]), flush=True)


if __name__ == "__main__":
    main()
