"""A request of an allocator as a row of four numbers: what compiled code performs."""

#: What; the number of the allocation, or of the private pool, which counts from 1; bytes, or ticks; stream (0: the
#: default one).
KIND, NUMBER, AMOUNT, STREAM = range(4)

#: Kinds. RECORD: the stream uses the allocation (record_stream). EMPTY: torch.cuda.empty_cache. TICK: the device's
#: clock advances. DELAY: from here on an event completes so many ticks after it is recorded. STOP: the caller has
#: something to do first. BEGIN: requests of the stream (-1: of all) come from the private pool from here on
#: (torch.cuda.use_mem_pool); CAPTURE: the same, of a CUDA graph that is captured; END: no longer. RELEASE: one of those
#: who began the pool needs it no more. EMPTY_POOL: what is free in it goes back to the device, if all have released it.
ALLOCATE, FREE, RECORD, EMPTY, TICK, DELAY, STOP, BEGIN, CAPTURE, END, RELEASE, EMPTY_POOL = range(12)
