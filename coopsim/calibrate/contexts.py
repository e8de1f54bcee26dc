"""The readings of the context: after what, and which libraries have been used by then (phantom/context.py)."""

READINGS: dict[str, tuple[str, ...]] = {
    "first tensor": (),
    "matrix product": ("cublas",),
    "convolution": ("cudnn",),
    "transformer with optimizer": ("cublas", "cublaslt"),
    "linear algebra": ("cusolver",),
    "FFT": ("cufft",),
}
