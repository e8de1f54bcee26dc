"""Traces: what one steady training step (or several consecutive ones) did, at storage level, in program order."""

from coopsim.trace.build import TraceBuilder
from coopsim.trace.check import check
from coopsim.trace.file import load, save
from coopsim.trace.named import load_trace
from coopsim.trace.ragged import Ragged
from coopsim.trace.table import SCHEMA_VERSION, Trace

__all__ = ["SCHEMA_VERSION", "Ragged", "Trace", "TraceBuilder", "check", "load", "load_trace", "save"]
