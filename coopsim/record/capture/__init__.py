"""Capture: run a training step on the phantom GPU in a child process, and record it as a trace.

Importing this package imports no torch; only the child (worker.py) does.
"""

from coopsim.base.errors import CaptureError, CaptureOutOfMemory
from coopsim.record.capture.job import Job
from coopsim.record.capture.parent import capture

__all__ = ["CaptureError", "CaptureOutOfMemory", "Job", "capture"]
