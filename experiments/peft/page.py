KINDS = ("parameters", "gradients", "optimizer_state", "activations", "other")
def summary(t):
    import statistics
    e=sorted(abs(r["error_percent"]) for r in t)
    return f"{len(e)} rows: median {statistics.median(e):.2f} %, within 0.5: {sum(x<=.5 for x in e)}, within 2: {sum(x<=2 for x in e)}, largest {e[-1]}" if e else "none"
def write(): pass
