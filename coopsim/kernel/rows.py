"""A request of an allocator as a row of four numbers: what compiled code performs."""

#: What; the allocation's number; bytes, or ticks; stream (0: the default one).
KIND, NUMBER, AMOUNT, STREAM = range(4)

#: Kinds. RECORD: the stream uses the allocation (record_stream). EMPTY: torch.cuda.empty_cache. TICK: the device's
#: clock advances. DELAY: from here on an event completes so many ticks after it is recorded. STOP: the caller has
#: something to do first.
ALLOCATE, FREE, RECORD, EMPTY, TICK, DELAY, STOP = range(7)
