"""What a snapshot's pickle holds, small."""

BLOCK = {"address": 4096, "size": 2 << 20, "requested_size": 1000, "state": "active_allocated", "frames": []}


SEGMENT = {"device": 0, "address": 4096, "total_size": 2 << 20, "stream": 0, "segment_type": "small", "blocks": [BLOCK]}


ENTRY = {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "frames": []}


MADE = {"action": "segment_alloc", "addr": 4096, "size": 2 << 20, "stream": 0}


WHOLE = {"segments": [SEGMENT], "device_traces": [[MADE, ENTRY]], "allocator_settings": {}}
