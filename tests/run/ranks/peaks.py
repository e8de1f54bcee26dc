"""What a rank's report says of its memory."""

PEAKS = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_requested_bytes", "peak_device_bytes")
