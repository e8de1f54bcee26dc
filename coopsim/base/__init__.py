"""What every room uses: the vocabulary with its units, errors, files, text, progress, budgets."""
