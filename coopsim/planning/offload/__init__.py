"""What is copied to the host and back, in which idle intervals, and before which ops the copies begin."""
