"""PyTorch's own caching allocator: libc10_cuda.so as it is in the wheels, driven without a GPU. Ours is held to it."""

from coopsim.study.oracle.build import VERSIONS, Oracle, OracleError, available, oracle
from coopsim.study.oracle.gpu import Gpu, OracleRecording, RecordedCard, gpu

__all__ = ["VERSIONS", "Gpu", "Oracle", "OracleError", "OracleRecording", "RecordedCard", "available", "gpu", "oracle"]
