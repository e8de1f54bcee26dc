"""Small programs that train, and what real ones do besides. Each is a function: (objects with state, step)."""

import copy
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Step = Callable[[int], float]
Program = Callable[[], tuple[list[Any], Step]]

PROGRAMS: dict[str, Program] = {}
WIDTH, CLASSES = 64, 10


def program(make: Program) -> Program:
    PROGRAMS[make.__name__] = make
    return make


def net(depth: int = 6, drop: float = 0.1) -> nn.Sequential:
    layers = (layer for _ in range(depth) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(drop)))
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))


def batch(n: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, WIDTH), torch.randint(0, CLASSES, (n,))


def plain(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    forward: Callable[[torch.Tensor], torch.Tensor] | None = None,
    before: Callable[[], Any] = lambda: None,
    after: Callable[[], Any] = lambda: None,
    sizes: Callable[[int], int] = lambda _: 256,
) -> tuple[list[Any], Step]:
    optimizer = optimizer or torch.optim.Adam(model.parameters())

    def step(i: int) -> float:
        x, y = batch(sizes(i))
        optimizer.zero_grad()
        loss = functional.cross_entropy((forward or model)(x), y)
        loss.backward()
        before()
        optimizer.step()
        after()
        return loss.item()

    return [model, optimizer], step


# -- models and optimizers ---------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(2))
        self.first, self.second = nn.BatchNorm2d(16), nn.BatchNorm2d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = functional.dropout(functional.relu_(self.first(self.one(x))), 0.2)
        return functional.relu_(self.second(self.two(inside)).add_(x))


@program
def convolutions() -> tuple[list[Any], Step]:
    head = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, CLASSES))
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), *(Residual() for _ in range(4)), head)
    return plain(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), lambda x: model(x.view(-1, 1, 8, 8)))


@program
def transformer() -> tuple[list[Any], Step]:
    layers = (nn.TransformerEncoderLayer(WIDTH, 4, 128, batch_first=True) for _ in range(3))
    model = nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))
    return plain(model, forward=lambda x: model(x.view(32, 8, WIDTH)).flatten(0, 1))


@program
def foreach_and_clipping() -> tuple[list[Any], Step]:
    model = net()
    clip = lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # noqa: E731
    return plain(model, torch.optim.Adam(model.parameters(), foreach=True), before=clip)


@program
def fused() -> tuple[list[Any], Step]:
    model = net()
    return plain(model, torch.optim.AdamW(model.parameters(), fused=True))


@program
def two_optimizers() -> tuple[list[Any], Step]:
    model = net()
    halves = [list(model[:9].parameters()), list(model[9:].parameters())]
    first, second = torch.optim.SGD(halves[0], 0.1), torch.optim.Adam(halves[1])

    def step(_: int) -> float:
        x, y = batch()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        for optimizer in (first, second):
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return [model, first, second], step


@program
def closure() -> tuple[list[Any], Step]:
    model = net(drop=0.0)
    optimizer = torch.optim.LBFGS(model.parameters(), 0.1, max_iter=2, history_size=2)

    def step(_: int) -> float:
        x, y = batch()

        def again() -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return optimizer.step(again).item()

    return [model], step


@program
def accumulated() -> tuple[list[Any], Step]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(_: int) -> float:
        optimizer.zero_grad()
        for _ in range(3):
            x, y = batch()
            loss = functional.cross_entropy(model(x), y) / 3
            loss.backward()
        optimizer.step()
        return loss.item()

    return [model, optimizer], step


@program
def bfloat16() -> tuple[list[Any], Step]:
    model = net()

    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x).float()

    return plain(model, forward=forward)


@program
def scaled() -> tuple[list[Any], Step]:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3)

    def step(_: int) -> float:
        x, y = batch()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = functional.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return [model, optimizer, scaler], step


@program
def averaged() -> tuple[list[Any], Step]:
    model = net()
    mean = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)

    def after() -> None:
        schedule.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(mean.parameters()), list(model.parameters()), 0.1)

    state, step = plain(model, optimizer, after=after)
    return [*state, mean], step


# -- autograd ----------------------------------------------------------------------------------------------------------


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.own = x.sigmoid()
        return x * ctx.own

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * ctx.own * (1 + x * (1 - ctx.own))


class Raw(torch.autograd.Function):
    """Reads bytes as a kernel of one's own would: forward and backward by their address."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(x.detach().numpy() * 2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 2 + torch.from_numpy(x.detach().numpy() * 0)


def _between(function: Any) -> tuple[list[Any], Step]:
    model = net()

    def forward(x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(model):
            x = function.apply(layer(x)) if i % 3 == 1 else layer(x)
        return x

    return plain(model, forward=forward)


@program
def own_function() -> tuple[list[Any], Step]:
    return _between(Silu)


@program
def own_kernel() -> tuple[list[Any], Step]:
    return _between(Raw)


@program
def hooks() -> tuple[list[Any], Step]:
    model = net()
    model[3].register_forward_hook(lambda _module, _given, out: out * 1.5)
    model[6].register_full_backward_hook(lambda _module, into, _out: tuple(g * 2 for g in into))

    def forward(x: torch.Tensor) -> torch.Tensor:
        out = model(x)
        out.register_hook(lambda g: g * 0.5)
        return out

    return plain(model, forward=forward)


@program
def optimizer_in_backward() -> tuple[list[Any], Step]:
    model = net()
    own = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}

    def update(p: torch.Tensor) -> None:
        own[p].step()
        own[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)

    def step(_: int) -> float:
        x, y = batch()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        return loss.item()

    return [model], step


@program
def double_backward() -> tuple[list[Any], Step]:
    model = nn.Sequential(
        *(m for _ in range(5) for m in (nn.Linear(WIDTH, WIDTH), nn.Tanh())), nn.Linear(WIDTH, CLASSES)
    )
    optimizer = torch.optim.Adam(model.parameters())

    def step(_: int) -> float:
        x, y = batch()
        x.requires_grad_()
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        (loss + gradient.square().sum()).backward()
        optimizer.step()
        return loss.item()

    return [model, optimizer], step


@program
def checkpointed() -> tuple[list[Any], Step]:
    model = net(depth=9)

    def forward(x: torch.Tensor) -> torch.Tensor:
        for i in range(0, 27, 9):
            x = checkpoint(model[i : i + 9], x, use_reentrant=False)
        return model[27:](x)

    return plain(model, forward=forward)


@program
def saved_in_other_precision() -> tuple[list[Any], Step]:
    model = net()

    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.to(torch.float64), lambda t: t.to(torch.float32)):
            return model(x)

    return plain(model, forward=forward)


@program
def weight_norm() -> tuple[list[Any], Step]:
    model = net()
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.utils.parametrizations.weight_norm(layer)
    return plain(model)


@program
def distributed() -> tuple[list[Any], Step]:
    if not torch.distributed.is_initialized():
        file = tempfile.NamedTemporaryFile(delete=False)  # noqa: SIM115 (the group has it until its end)
        torch.distributed.init_process_group("gloo", init_method=f"file://{file.name}", rank=0, world_size=1)
    model = net()
    return plain(model, forward=nn.parallel.DistributedDataParallel(model))


# -- steps that change -------------------------------------------------------------------------------------------------


@program
def eight_lengths() -> tuple[list[Any], Step]:
    embed, layer = nn.Embedding(50, WIDTH), nn.TransformerEncoderLayer(WIDTH, 4, 128, batch_first=True)
    model = nn.ModuleList([embed, layer])
    optimizer = torch.optim.Adam(model.parameters())

    def step(i: int) -> float:
        words = torch.randint(0, 50, (16, 16 + 4 * (i * 5 % 8)))
        optimizer.zero_grad()
        loss = functional.cross_entropy((layer(embed(words)) @ embed.weight.t()).flatten(0, 1), words.flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    return [model, optimizer], step


@program
def a_branch() -> tuple[list[Any], Step]:
    model = net()

    def forward(x: torch.Tensor) -> torch.Tensor:
        model.count = getattr(model, "count", 0) + 1
        inside = model[:9](x)
        if model.count % 3 == 0:
            inside = inside + inside.tanh() * inside.sigmoid()
        return model[9:](inside)

    return plain(model, forward=forward)


@program
def layers_change_places() -> tuple[list[Any], Step]:
    model = net(drop=0.0)

    def forward(x: torch.Tensor) -> torch.Tensor:
        model.count = getattr(model, "count", 0) + 1
        for i in (0, 3, 6, 9, 12, 15) if model.count % 2 else (9, 3, 0, 6, 15, 12):
            x = functional.gelu(model[i](x))
        return model[-1](x)

    return plain(model, forward=forward)


@program
def looked_at_later() -> tuple[list[Any], Step]:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())

    def step(i: int) -> float:
        x, y = batch()
        optimizer.zero_grad()
        inside = model[:9](x)
        loss = functional.cross_entropy(model[9:](inside), y)
        loss.backward()
        optimizer.step()
        return loss.item() + (inside.sum().item() if i == 5 else 0)

    return [model, optimizer], step
