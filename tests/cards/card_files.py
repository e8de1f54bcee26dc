"""A card file for tests: small, complete, of a card without a profile."""

from typing import Any


def content() -> dict[str, Any]:
    """Return a card file's content, which the caller may change."""
    return {
        "card_version": 1,
        "phantom": False,
        "card": {
            "name": "rtx-a6000",
            "title": "NVIDIA RTX A6000",
            "source": "a test",
            "compute_capability": "8.6",
            "memory_mib": 48669,
            "sms": 84,
            "threads_per_sm": 1536,
            "shared_per_sm_kib": 100,
            "shared_optin_kib": 99,
            "l2_kib": 6144,
            "fp32_tflops": 38.7,
            "tf32_tflops": 77.4,
            "bf16_tflops": 154.8,
            "fp16_tflops": 154.8,
            "bandwidth_gbs": 768,
            "nvlink_gbs": 0,
            "pcie_gbs": 31.5,
            "network_gbs": 12.5,
        },
        "measured": {
            "by": "a test",
            "date": "2026-11-26T12:00:00Z",
            "driver": "580.1",
            "torch": "2.14.1",
            "cuda": "13.0",
            "cudnn": "92400",
            "python": "3.12.3",
            "nvidia_smi": {},
        },
        "context": [
            {
                "torch": "2.14.1",
                "cuda": "13.0",
                "driver": "580.1",
                "readings": [
                    {"after": "first tensor", "loaded": [], "bytes": 300 << 20},
                    {"after": "matrix product", "loaded": ["cublas"], "bytes": 340 << 20},
                ],
            }
        ],
        "prices": {"matmul": {"a": 6200, "b": 0.7, "f": 0.9}, "scale": 0.75},
        "workspaces": [{"op": "cublas", "bytes": 8519680}],
        "link": {
            "to_card_gb_s": 24.5,
            "to_host_gb_s": 25.0,
            "duplex_gb_s": 40.0,
            "pageable_to_card_gb_s": 6.0,
            "pageable_to_host_gb_s": 5.0,
            "latency_ns": 9000,
        },
        "addresses": [{"bytes": 2097152, "address": 139835641692160}],
        "host_ns_per_op": 6100,
    }
