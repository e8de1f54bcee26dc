"""Stand-in libraries: every function gives back all that it should, and extensions find those that they link."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from coopsim import phantom
from coopsim.cards import wheel
from coopsim.phantom import build, functions
from coopsim.phantom.functions import Function, Output

pytestmark = pytest.mark.usefixtures("phantom_gpu")
PROGRAM = Path(__file__).parent / "call_functions.py"


def defined_in_c() -> list[str]:
    """Names of functions that csrc/ defines."""
    text = "".join(text for name, text in build._sources().items() if name.endswith(".c"))
    made = [f"cublas{way}{of}" for way in ("Set", "Get") for of in ("Vector", "Matrix")]
    convolutions = ("Forward", "BackwardData", "BackwardFilter")
    made += [f"cudnnGetConvolution{of}Algorithm_v7" for of in convolutions]
    made += [f"cudnnFindConvolution{of}AlgorithmEx" for of in convolutions]
    made += [f"cusparseCreate{of}" for of in re.findall(r"^CREATE\((\w+)\)", text, re.MULTILINE)]
    return [*re.findall(r"^(?:\w+ )*?\*{0,2}((?:cu|nccl|nvrtc|nvml|__cuda)\w+)\(", text, re.MULTILINE), *made]


def test_every_function_writes_what_it_gives_back() -> None:
    environment = os.environ | phantom.environment("a100-80gb")
    program = [sys.executable, str(PROGRAM), *defined_in_c()]
    child = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-2000:]
    called, wrong = json.loads(child.stdout.splitlines()[-1])
    assert wrong == {}
    assert called > 600


def test_of_every_function_that_torch_calls_it_is_known_what_it_gives_back() -> None:
    wanted = wheel.imports(wheel.find().libraries)
    assert [f"{lib} {name}" for lib, names in wanted.items() for name in names if name not in functions.of(lib)] == []


def test_what_extensions_link_beyond_torch_is_there() -> None:
    """Of bitsandbytes, fbgemm, vLLM, torchao and others, as nm lists them (docs/phantom-run.md)."""
    folder = build.libraries()
    for start, names in {
        "libcudart.so": ("cudaMallocManaged", "cudaMemPrefetchAsync", "cudaMallocHost", "cudaMemcpy2D"),
        "libcublas.so": ("cublasGemmEx", "cublasSgeam", "cublasHgemm"),
        "libcublasLt.so": ("cublasLtMatrixTransformDescCreate", "cublasLtCreate"),
        "libcusparse.so": ("cusparseSpVecGet", "cusparseSparseToDense_bufferSize"),
        "libcurand.so": ("curandCreateGenerator",),
        "libcuda.so.1": ("cuMemAlloc_v2", "cuGetErrorName", "cuGreenCtxCreate"),
        "libnvidia-ml.so.1": ("nvmlDeviceGetPciInfo_v3",),
    }.items():
        (file,) = [f for f in folder.iterdir() if f.name.startswith(start)]
        runtime = next(f for f in folder.iterdir() if f.name.startswith("libcudart.so"))
        table = "".join(wheel.readelf("--dyn-syms", f) for f in {file, runtime})
        exported = {line.split()[7].partition("@")[0] for line in table.splitlines() if len(line.split()) >= 8}
        assert set(names) <= exported, file.name


def test_patterns_of_names() -> None:
    assert [*functions._names(["cublas[SD]gemm_v2(_64)?", "cublasCreate_v2"])] == [
        "cublasSgemm_v2",
        "cublasSgemm_v2_64",
        "cublasDgemm_v2",
        "cublasDgemm_v2_64",
        "cublasCreate_v2",
    ]


def test_what_a_function_gives_back_is_read() -> None:
    assert functions._read("5:int 6:buffer@7 -> 12") == ((Output(5, "int"), Output(6, "buffer", 7)), 12)
    assert functions._read("none") == ((), 0)
    stub = Function("f", (Output(1, "int"),), 4).stub
    assert stub.startswith("long f(uintptr_t a0, uintptr_t a1) {")
    assert "*(int *)p = 0;" in stub
    assert stub.endswith("return 4; }")


def test_runtime_is_in_layers(tmp_path: Path) -> None:
    """No file of csrc/ needs another that needs it."""
    for name, text in build._sources().items():
        (tmp_path / name).write_text(text)
    defines, needs = {}, {}
    for name in build._RUNTIME:
        subprocess.run([build.compiler(), *build._C, "-c", f"{name}.c"], cwd=tmp_path, check=True)
        rows = [line.split() for line in wheel.readelf("--syms", tmp_path / f"{name}.o").splitlines()]
        symbols = [row for row in rows if len(row) == 8 and row[4] == "GLOBAL"]
        defines |= {row[7]: name for row in symbols if row[6] != "UND"}
        needs[name] = {row[7] for row in symbols if row[6] == "UND"}
    uses = {name: {defines[s] for s in wanted if s in defines} - {name} for name, wanted in needs.items()}
    below: set[str] = set()
    while ready := {name for name in uses if uses[name] <= below} - below:
        below |= ready
    assert {name: uses[name] - below for name in uses if name not in below} == {}
