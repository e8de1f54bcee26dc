"""Call recorders from a kernel in PyTorch's dispatcher, below autograd, so that they do not change what runs.

While a dispatch mode is active, autograd's formulas avoid in-place ops, because the mode may keep a reference to a
tensor (at::areAnyTensorSubclassLike). So a kernel in C++ calls the recorders, which are not active as modes.
"""
