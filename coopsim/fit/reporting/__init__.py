"""What `coopsim fit` prints: the verdict, the rows of remedies, and notes."""
