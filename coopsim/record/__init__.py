"""What watches PyTorch (`observe/`), and one recorded training step (`capture/`)."""
