"""Machine code of kernels: kept in files, loaded without the compiler, called from Python."""

import ctypes
import fcntl
import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from coopsim.base.files import replacing
from coopsim.base.types import CoopsimError
from coopsim.simulate.kernel.reference import Bundle, words_of

_LETTERS = {int: "q", float: "d", bool: "q"}  #: of struct, per type of argument; what is passed by pointer is a "q"
ENTRY = "coopsim_entry"  #: void of one pointer to words: the arguments on the way in, the results on the way out


class MachineCode:
    """One version of a kernel, in memory. results: a letter of struct per result, "?" for a truth value.

    The words hold one more than the longer of arguments and results: the first says whether the kernel raised.
    """

    def __init__(self, name: str, kinds: tuple[Any, ...], results: str, code: bytes) -> None:
        self._name = name
        letters = "".join(_LETTERS.get(kind, "q") for kind in kinds)
        self._arguments = struct.Struct("=q" + letters + "q" * max(len(results) - len(letters), 0))
        self._padding = (0,) * max(len(results) - len(letters), 0)
        self._results = struct.Struct("=q" + results.replace("?", "q"))
        self._booleans = [i for i, letter in enumerate(results) if letter == "?"]
        self._words = ctypes.c_char * self._arguments.size
        self._run = _load(code)

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        """What the kernel returns: None, a number, or a tuple of numbers. RuntimeError if it raises."""
        alive = list[Any]()
        given = list[Any]()
        for argument in arguments:
            if isinstance(argument, Bundle):
                given.append(argument.address)
            elif isinstance(argument, np.ndarray):
                words = words_of(argument)
                alive.append(words)
                given.append(words.ctypes.data)
            else:
                given.append(argument)
        words = self._words.from_buffer_copy(self._arguments.pack(0, *given, *self._padding))
        self._run(words)
        raised, *results = self._results.unpack_from(words)
        if raised:
            raise RuntimeError(f"the kernel {self._name} raised an error")
        for i in self._booleans:
            results[i] = bool(results[i])
        return tuple(results) if len(results) > 1 else results[0] if results else None


def find(function: Any, kinds: tuple[Any, ...], folder: Path, make: Callable[[], tuple[str, bytes]]) -> MachineCode:
    """The version of a kernel for arguments of these types: from the folder, or compiled and put there.

    Processes that need the same one at once compile it once: the others wait for it.
    """
    name = f"{function.__module__.removeprefix('coopsim.')}.{function.__qualname__}"
    text = f"{kinds} {_processor()} {_foreign(function.__code__.co_filename)}"
    path = folder / f"{re.sub('[^a-z0-9_.]', '_', name)}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.o"
    found = _kept(path)
    if found is None:
        with _alone(path):
            found = _kept(path)
            if found is None:
                results, code = found = make()
                about = {"kernel": name, "results": results, "sha256": hashlib.sha256(code).hexdigest()}
                _keep(path, json.dumps(about).encode() + b"\n" + code)
    return MachineCode(name, kinds, *found)


def _kept(path: Path) -> tuple[str, bytes] | None:
    """Results and code, if they are there, whole."""
    try:
        header, code = path.read_bytes().split(b"\n", 1)
        about = json.loads(header)
        results: str = about["results"]
        return (results, code) if about["sha256"] == hashlib.sha256(code).hexdigest() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else is in here for the same file meanwhile, if its folder can be written to and locked."""
    with ExitStack() as stack:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(path.with_suffix(".lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _keep(path: Path, content: bytes) -> None:
    """Whole or not at all. Without a folder to write to the next process compiles again."""
    with suppress(OSError, CoopsimError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_bytes(content)


@cache
def _foreign(file: str) -> str:
    """A hash of kernels outside the package, of which the name of the folder knows nothing; "" of ours.

    Of their file; in a package of their own, of all its files, as one calls another.
    """
    path = Path(file)
    if path.is_relative_to(Path(__file__).parents[2]):
        return ""
    files = sorted(path.parent.glob("*.py")) if (path.parent / "__init__.py").exists() else [path]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files if f.is_file())).hexdigest()


@cache
def _processor() -> str:
    """What the code is compiled for."""
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def _load(code: bytes) -> Callable[[Any], None]:
    """The entry of the code, which stays in memory until the process ends.

    The engine is not closed: it would be as Python takes modules apart, and fails then, if llvmlite was imported by a
    handler of atexit.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address(ENTRY))
    engine.detach()
    return entry
