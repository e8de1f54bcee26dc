"""The clock of `phantom run` follows the precision that a script sets, while the C++ library watches its ops."""

import json
from pathlib import Path

from tests.run.command import phantom_run

TEXT = """
import json, torch
x = torch.ones(4096, 4096, device="cuda")
def ms(product=lambda: x @ x):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    product()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)
times, matmul = [ms(), ms()], torch.backends.cuda.matmul
for how in True, False, True:
    matmul.allow_tf32 = how
    times.append(ms())
times.append(ms(lambda: x.bfloat16() @ x.bfloat16()))
torch.set_float32_matmul_precision("highest")
times += [ms(), ms(lambda: torch.addmm(x, x, x))]
print(json.dumps(times))
"""


def test_the_clock_follows_the_setting(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TEXT)
    code, out, err = phantom_run("--gpu", "h100-80gb", "--", "python", tmp_path / "train.py")
    assert code == 0, err
    _, full, fast, off, on, half, highest, added = json.loads(out.splitlines()[0])
    assert full == off == highest
    assert fast == on
    assert 4 < full / fast < 8
    assert half < full
    assert added >= full
