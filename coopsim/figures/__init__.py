"""Figures: curves of a sweep against the memory ratio, the memory map of a schedule, and where its time goes.

Importing this costs nothing: matplotlib and pandas come in when the first figure is drawn, and no global backend is
set.
"""

from coopsim.figures import lines, memory_map
from coopsim.figures.output import FORMATS, save
from coopsim.figures.plot import plot_comparison, plot_schedule, plot_sweep, plot_time

__all__ = ["FORMATS", "lines", "memory_map", "plot_comparison", "plot_schedule", "plot_sweep", "plot_time", "save"]
