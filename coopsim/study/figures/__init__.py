"""Figures: curves of a sweep, feasibility maps, the memory map of a schedule, where its time goes, bytes of a trace.

Importing this costs nothing: matplotlib and pandas come in when the first figure is drawn, and no global backend is
set.
"""

from coopsim.study.figures import feasibility, lines, memory_map, time
from coopsim.study.figures.output import FORMATS, save
from coopsim.study.figures.plot import FigureFiles

__all__ = ["FORMATS", "FigureFiles", "feasibility", "lines", "memory_map", "save", "time"]
