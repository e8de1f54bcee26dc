"""Small hash tables of streams, whose order of iteration is that of the tables in PyTorch.

Events of several streams are looked through in the order in which a hash table lists the streams. When several streams
have completed events, that order decides which block is merged first. The table is Malte Skarupke's flat_hash_map with
Fibonacci hashing (Robin Hood probing, at most half full, doubling); its key is the stream's pointer on device 0.
"""

from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.kernel.jit import inlined, kernel

FEWEST = 4  # slots, and lookups


@inlined
def slots(A: c.Caching, table: int) -> int:
    """Slots without those at the end, which only overflow uses."""
    return A.K[c.K_TABLES + 2 * table]


@inlined
def lookups(n: int) -> int:
    """How far from its own slot an entry may be, in a table of n slots (a power of two)."""
    power = 0
    while n >> power > 1:
        power += 1
    return max(FEWEST, power)


@inlined
def end_of(A: c.Caching, table: int) -> int:
    """Rows to look through."""
    n = slots(A, table)
    return n + lookups(n) if n else 0


@kernel
def own_slot(stream: int, n: int) -> int:
    """The slot of a stream in a table of n slots: the top bits of its hash times 2^64 / golden ratio, modulo 2^64."""
    # In four digits of 16 bits, since compiled integers have 64 bits with a sign and Python's have no end.
    h0, h1, h2 = stream & 0xFFFF, (stream >> 16) & 0xFFFF, (stream >> 32) & 0xFFFF
    h3 = 0x0100  # the device: type 1, index 0
    g0, g1, g2, g3 = 0x7C15, 0x7F4A, 0x79B9, 0x9E37
    low = h0 * g0
    second = (low >> 16) + h0 * g1 + h1 * g0
    third = (second >> 16) + h0 * g2 + h1 * g1 + h2 * g0
    top = (third >> 16) + h0 * g3 + h1 * g2 + h2 * g1 + h3 * g0
    bits = ((top & 0xFFFF) << 16) | (third & 0xFFFF)  # the upper 32 of 64
    power = 0
    while n >> power > 1:
        power += 1
    return bits >> (32 - power)


@inlined
def empty(A: c.Caching, table: int, n: int) -> None:
    """No entries, n slots."""
    A.K[c.K_TABLES + 2 * table] = n
    A.K[c.K_TABLES + 2 * table + 1] = 0
    for i in range(n + lookups(n)):
        A.T[table, i, c.T_DISTANCE] = c.NONE


@inlined
def _swap(A: c.Caching, table: int, i: int, stream: int, head: int, tail: int) -> tuple[int, int, int]:
    """Put an entry into slot i and take out what was there."""
    out = (A.T[table, i, c.T_STREAM], A.T[table, i, c.T_HEAD], A.T[table, i, c.T_TAIL])
    A.T[table, i, c.T_STREAM] = stream
    A.T[table, i, c.T_HEAD] = head
    A.T[table, i, c.T_TAIL] = tail
    return out


@kernel
def _insert(A: c.Caching, table: int, stream: int, head: int, tail: int) -> bool:
    """Put a new stream in; False if the table must double first, which leaves it as it was."""
    n = slots(A, table)
    if n == 0 or 2 * (A.K[c.K_TABLES + 2 * table + 1] + 1) > n:
        return False
    most = lookups(n)
    i, distance = own_slot(stream, n), 0
    while A.T[table, i, c.T_DISTANCE] >= distance:
        i += 1
        distance += 1
    if distance == most:
        return False
    reach, ahead = i, distance  # before anything moves, see whether everything that must move finds a place
    while A.T[table, reach, c.T_DISTANCE] != c.NONE:
        if A.T[table, reach, c.T_DISTANCE] < ahead:
            ahead = A.T[table, reach, c.T_DISTANCE]
        ahead += 1
        reach += 1
        if ahead == most:
            return False
    while A.T[table, i, c.T_DISTANCE] != c.NONE:
        if A.T[table, i, c.T_DISTANCE] < distance:
            stream, head, tail = _swap(A, table, i, stream, head, tail)
            there = A.T[table, i, c.T_DISTANCE]
            A.T[table, i, c.T_DISTANCE] = distance
            distance = there
        i += 1
        distance += 1
    _swap(A, table, i, stream, head, tail)
    A.T[table, i, c.T_DISTANCE] = distance
    A.K[c.K_TABLES + 2 * table + 1] += 1
    return True


@kernel
def _double(A: c.Caching, table: int) -> None:
    """Twice the slots, as often as it takes to put every entry in anew, in the order of the slots."""
    n = max(FEWEST, 2 * slots(A, table))
    while True:
        empty(A, c.SPARE, n)
        fits = True
        for i in range(end_of(A, table)):
            if A.T[table, i, c.T_DISTANCE] != c.NONE:
                fits = fits and _insert(
                    A, c.SPARE, A.T[table, i, c.T_STREAM], A.T[table, i, c.T_HEAD], A.T[table, i, c.T_TAIL]
                )
        if fits:
            break
        n *= 2
    empty(A, table, n)
    for i in range(n + lookups(n)):
        for column in range(c.T_DISTANCE + 1):
            A.T[table, i, column] = A.T[c.SPARE, i, column]
    A.K[c.K_TABLES + 2 * table + 1] = A.K[c.K_TABLES + 2 * c.SPARE + 1]


@kernel
def find(A: c.Caching, table: int, stream: int) -> int:
    """The row of a stream, or -1."""
    for i in range(end_of(A, table)):
        if A.T[table, i, c.T_DISTANCE] != c.NONE and A.T[table, i, c.T_STREAM] == stream:
            return i
    return c.NONE


@kernel
def enter(A: c.Caching, table: int, stream: int) -> int:
    """The row of a stream, which is put in with an empty queue if it is not there."""
    at = find(A, table, stream)
    if at >= 0:
        return at
    while not _insert(A, table, stream, c.NONE, c.NONE):
        _double(A, table)
    return find(A, table, stream)


@kernel
def erase(A: c.Caching, table: int, at: int) -> None:
    """Take the entry at that row out; those after it that are not in their own slots move back by one."""
    A.K[c.K_TABLES + 2 * table + 1] -= 1
    A.T[table, at, c.T_DISTANCE] = c.NONE
    following = at + 1
    end = end_of(A, table)
    while following < end and A.T[table, following, c.T_DISTANCE] > 0:
        A.T[table, at, c.T_STREAM] = A.T[table, following, c.T_STREAM]
        A.T[table, at, c.T_HEAD] = A.T[table, following, c.T_HEAD]
        A.T[table, at, c.T_TAIL] = A.T[table, following, c.T_TAIL]
        A.T[table, at, c.T_DISTANCE] = A.T[table, following, c.T_DISTANCE] - 1
        A.T[table, following, c.T_DISTANCE] = c.NONE
        at = following
        following += 1
