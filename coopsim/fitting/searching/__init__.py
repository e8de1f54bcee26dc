"""The search: it runs what remedies propose, here or on a cluster, and decides whether the script fits."""
