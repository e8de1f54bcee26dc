"""The version of this package, for whatever must name it: files, caches, `--version`."""

__version__ = "0.2.0"
