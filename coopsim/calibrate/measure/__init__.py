"""The measurements, of one part each. They run in child processes of their own, on the GPU."""
