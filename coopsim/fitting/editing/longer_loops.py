"""Let a training loop that adds up the gradients of several batches add up those of more."""

import ast

from coopsim.fitting.editing.loops import counted_ends, span


def adding_up_more(text: str, times: int) -> str:
    """Return a file's text with `times` as many batches per step, where a loop adds up already; "" if not certain.

    Certain is the only loop with a `backward`, in which `step` is called below one `if` on a remainder, by a whole
    number or by a name for one that is assigned once, and in which something is divided by the same number.

    >>> body = "    (f(x) / n).backward()\\n    if (i + 1) % n == 0:\\n        o.step()\\n"
    >>> loop = f"n = 4\\nfor i, x in enumerate(d):\\n{body}"
    >>> adding_up_more(loop, 2).splitlines()[0]
    'n = 8'
    >>> adding_up_more(loop.replace("/ n", ""), 2)
    ''
    """
    tree = ast.parse(text)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.For) and _calls(node, "backward")]
    loops = [node for node in found if not any(other is not node and other in ast.walk(node) for other in found)]
    if len(loops) != 1:
        return ""
    loop = loops[0]
    by_remainder = [n for n in loop.body if isinstance(n, ast.If) and _calls(n, "step") and _remainders(n.test)]
    outside = [n for n in loop.body if n not in by_remainder]
    if len(by_remainder) != 1 or any(_calls(n, "step") for n in outside) or _calls(by_remainder[0], "backward"):
        return ""
    remainders = _remainders(by_remainder[0].test)
    if len(remainders) != 1 or sum(len(_calls(n, "backward")) for n in outside) != 1:
        return ""
    places = _number(tree, loop, remainders[0])
    ends = counted_ends(text, loop, _counter(loop), times)
    if not places or ends is None:
        return ""
    changes = [(*span(text, place), str(place.value * times)) for place in places]  # type: ignore[operator]
    for begin, end, new in sorted([*changes, *ends], reverse=True):
        text = f"{text[:begin]}{new}{text[end:]}"
    return text


def _counter(loop: ast.For) -> str:
    """The name that counts the batches of a loop over enumerate(…); "" if there is none."""
    over, target = loop.iter, loop.target
    counts = isinstance(over, ast.Call) and getattr(over.func, "id", "") == "enumerate" and len(over.args) == 1
    first = target.elts[0] if counts and isinstance(target, ast.Tuple) else None
    return first.id if isinstance(first, ast.Name) else ""


def _number(tree: ast.Module, loop: ast.For, modulus: ast.expr) -> list[ast.Constant]:
    """Return the places at which the number of batches stands; none where that is not certain."""
    divisors = [n.right for n in ast.walk(loop) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    divisors += [n.value for n in ast.walk(loop) if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Div)]
    if isinstance(modulus, ast.Constant):
        same = [n for n in divisors if isinstance(n, ast.Constant) and n.value == modulus.value]
        used = [n for n in ast.walk(loop) if isinstance(n, ast.Constant) and n.value == modulus.value]
        return [modulus, *same] if len(same) == 1 and len(used) == 2 and _is_whole(modulus) else []
    if not isinstance(modulus, ast.Name) or not any(isinstance(n, ast.Name) and n.id == modulus.id for n in divisors):
        return []
    stores = [
        n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == modulus.id and isinstance(n.ctx, ast.Store)
    ]
    parameters = [n for n in ast.walk(tree) if isinstance(n, ast.arg) and n.arg == modulus.id]
    assigned = [
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign) and len(n.targets) == 1 and n.targets[0] in stores and _is_whole(n.value)
    ]
    certain = len(stores) == len(assigned) == 1 and not parameters
    return [value for value in assigned if isinstance(value, ast.Constant)] if certain else []


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0


def _remainders(test: ast.expr) -> list[ast.expr]:
    return [n.right for n in ast.walk(test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)]


def _calls(node: ast.AST, name: str) -> list[ast.Call]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == name]
