"""Typed values of what JSON made of their dicts (dataclasses.asdict): the one reader of what crosses to a process."""

import functools
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def read(kind: Any, found: Any) -> Any:
    """Return the value of type `kind`: dataclasses, in tuples, lists, dicts and unions; all else is as it is.

    Of several dataclasses in a union it is the one with these fields. Raises TypeError or KeyError for another shape.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(found, dict):
            raise TypeError(f"{kind.__name__} is an object, not {found!r}")
        hints = _hints(kind)
        return kind(**{name: read(hints[name], value) for name, value in found.items()})
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        kinds = [one for one in of if one is not NoneType]
        if found is None or (len(kinds) > 1 and not isinstance(found, dict)):
            return found
        return read(next(one for one in kinds if len(kinds) == 1 or _hints(one).keys() == found.keys()), found)
    if origin is tuple:
        return tuple(map(read, of[:1] * len(found) if of[-1] is Ellipsis else of, found))
    if origin is list:
        return [read(of[0], one) for one in found]
    if origin is dict:
        return {key: read(of[1], one) for key, one in found.items()}
    return found
