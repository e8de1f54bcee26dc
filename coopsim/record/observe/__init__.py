"""Watch PyTorch while it runs: a dispatch mode sees each op, and finalizers see the end of each storage.

Recordings of a step (`capture`) and of a whole script (`script`), and training inside a budget (`live`), are built
on it; it imports none of them. What needs no torch (`errors`, `masks`, …) imports none, and so does this file.
"""
