"""Record what a training step does, replay it in a simulated GPU memory under a budget, and see what fits."""

__version__ = "0.1.0"
