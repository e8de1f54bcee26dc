"""`cuda-caching`: PyTorch's CUDA caching allocator, simulated byte for byte (docs/allocators.md)."""
