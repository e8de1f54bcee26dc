"""What ZeRO keeps beside PyTorch's own attributes, in the split of the peak by kind."""

import json

from tests.run.ranks.conftest import SCRIPTS, Command


def test_shards_flat_buffers_and_buckets(phantom_run: Command) -> None:
    answer = phantom_run("--json", "--world", "2", "--", "python", SCRIPTS / "zero.py")
    assert answer.code == 0, answer.err
    n, kinds = 1 << 20, json.loads(answer.out)["peak_by_kind"]
    assert kinds["parameters"] == 4 * n // 2 + 2 * n // 2 + 2 * n // 4  # master shard, flat shard, second shard
    assert kinds["gradients"] == 4 * n // 2 + 2 * n // 2 + 32  # of the master shard; the flat buffer; that of the input
    assert kinds["optimizer_state"] == 8 * n // 2
    assert kinds["gathered_layers"] == 2 * n
    assert kinds["buckets"] == 2 * 2 * n + 2 * 3 * n + 2 * 2 * n  # the wrapper's own, what is reduced, its parts
