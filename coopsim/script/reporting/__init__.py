"""What is reported of a run: by each process (process.py), of the whole (report.py), and in words (words.py)."""
