"""Replays of traces as one HTML file: curves over budgets, memory maps to zoom into, tables. It needs no network."""

from coopsim.report.data import Ask, collect
from coopsim.report.page import html, write

__all__ = ["Ask", "collect", "html", "write"]
