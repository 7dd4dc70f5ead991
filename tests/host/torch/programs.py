"""Programs of one rank each, run by `ranks.processes`: real processes, real `init_process_group("epic")`.

python programs.py PROGRAM FOLDER      forks WORLD_SIZE ranks; rank r's result goes to FOLDER/PROGRAM.r.json
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import epic_host.torch_backend
from epic_spec.errors import EpicError

TIMEOUT = timedelta(seconds=120)
STACKS_SECONDS = 200.0


def everything(rank: int) -> Any:
    """Every collective of the public interface, on the default group and on one of ranks 0 and 2."""
    size = dist.get_world_size()
    found: dict[str, Any] = {"backend": dist.get_backend(), "rank": rank, "size": size}
    found["path"] = getattr(dist.group.WORLD.comm, "path", None)  # type: ignore[union-attr]
    tensor = torch.full((5,), rank + 1, dtype=torch.int32)
    dist.all_reduce(tensor)
    found["all_reduce"] = tensor.tolist()
    tensor = torch.tensor([rank, -rank], dtype=torch.int16)
    dist.reduce(tensor, 1, dist.ReduceOp.MAX)
    found["reduce"] = tensor.tolist()
    tensor = torch.tensor([rank * 1.5, 7.0])
    dist.broadcast(tensor, 2)
    found["broadcast"] = tensor.tolist()
    out = torch.empty(3, dtype=torch.int32)
    dist.reduce_scatter_tensor(out, torch.arange(3 * size, dtype=torch.int32) * (rank + 1))
    found["reduce_scatter_tensor"] = out.tolist()
    whole = torch.empty(2 * size, dtype=torch.int32)
    dist.all_gather_into_tensor(whole, torch.tensor([rank, 10 * rank], dtype=torch.int32))
    found["all_gather_into_tensor"] = whole.tolist()
    parts = [torch.empty(2, dtype=torch.int32) for _ in range(size)]
    dist.all_gather(parts, torch.tensor([rank, -rank], dtype=torch.int32))
    found["all_gather"] = [part.tolist() for part in parts]
    dist.reduce_scatter(out, [torch.full((3,), r * (rank + 1), dtype=torch.int32) for r in range(size)])
    found["reduce_scatter"] = out.tolist()
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    found["all_gather_object"] = objects
    dist.barrier()
    works = [dist.all_reduce(torch.full((4,), rank + i, dtype=torch.int32), async_op=True) for i in range(8)]
    found["async"] = [work.get_future().wait()[0].tolist()[0] for work in works]
    found["completed"] = all(work.is_completed() for work in works)
    part = dist.new_group([0, 2], timeout=TIMEOUT)
    if rank in (0, 2):
        tensor = torch.full((5,), rank + 1, dtype=torch.int32)
        dist.all_reduce(tensor, group=part)
        found["new_group"] = tensor.tolist()
    dist.all_reduce(tensor := torch.ones(1, dtype=torch.int32))
    found["after"] = tensor.item()
    return found


def train(rank: int) -> Any:
    """The same model trained with DistributedDataParallel over gloo and over epic: losses, and gradients."""
    gloo = dist.new_group(backend="gloo", timeout=TIMEOUT)
    return {
        "floats": {name: _floats(rank, group) for name, group in (("epic", None), ("gloo", gloo))},
        "integers": {name: _integers(rank, group) for name, group in (("epic", None), ("gloo", gloo))},
    }


def _floats(rank: int, group: Any) -> list[float]:
    torch.manual_seed(1)
    hidden = torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh()
    )
    model = DistributedDataParallel(torch.nn.Sequential(hidden, torch.nn.Linear(64, 1)), process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(100 + rank)
    losses = []
    for _ in range(30):
        inputs = torch.randn(32, 16, generator=generator)
        wanted = inputs.sin().sum(1, keepdim=True)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        # Of all ranks, in one way for both.
        dist.all_reduce(mean, group=group)
        losses.append(mean.item() / dist.get_world_size())
    return losses


def _integers(rank: int, group: Any) -> list[list[float]]:
    """Gradients of a model whose every number is a whole one: exact in float32, so in any order the same."""
    model = torch.nn.Linear(8, 4)
    with torch.no_grad():
        model.weight.copy_(torch.arange(32).reshape(4, 8) % 5 - 2)
        model.bias.zero_()
    ddp = DistributedDataParallel(model, process_group=group)
    inputs = (torch.arange(24).reshape(3, 8) * (rank + 1) % 7 - 3).float()
    (ddp(inputs) * 8).sum().backward()
    assert model.weight.grad is not None
    return model.weight.grad.tolist()  # type: ignore[no-any-return]


def lost(rank: int) -> Any:
    """Rank 2 dies; what the others are told."""
    dist.all_reduce(torch.ones(4, dtype=torch.int32))
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        dist.all_reduce(torch.ones(4, dtype=torch.int32))
    except EpicError as error:
        return {"kind": type(error).__name__, "ranks": list(error.ranks), "seconds": time.monotonic() - begin}
    return {"kind": "none"}


def lost_in_training(rank: int) -> Any:
    """Rank 2 dies between two steps of DistributedDataParallel; what `backward` raises at the others."""
    model = DistributedDataParallel(torch.nn.Linear(8, 4))
    for step in range(3):
        if rank == 2 and step == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            model(torch.ones(2, 8)).sum().backward()
        except Exception as error:
            return {"kind": type(error).__name__, "text": str(error), "step": step}
    return {"kind": "none"}


PROGRAMS = {"everything": everything, "train": train, "lost": lost, "lost_in_training": lost_in_training}


def rank_main(program: str, rank: int, folder: Path) -> None:
    """The life of one rank."""
    torch.set_num_threads(1)
    # What a test that waits in vain shows.
    faulthandler.dump_traceback_later(STACKS_SECONDS)
    if hosts := os.environ.get("TEST_HOSTS", "").split():
        os.environ["EPIC_HOST"] = hosts[rank]
    try:
        timeout = timedelta(seconds=float(os.environ.get("TEST_TIMEOUT", TIMEOUT.total_seconds())))
        dist.init_process_group("epic", rank=rank, timeout=timeout)
        result = PROGRAMS[program](rank)
        dist.destroy_process_group()
    except Exception as error:
        result = {"error": type(error).__name__, "message": str(error)}
    (folder / f"{program}.{rank}.json").write_text(json.dumps(result))


def main(program: str, folder: Path) -> None:
    """Fork into all ranks, and wait for them."""
    assert epic_host.torch_backend.__doc__
    pids = []
    for rank in range(int(os.environ["WORLD_SIZE"])):
        pid = os.fork()
        if pid == 0:
            try:
                rank_main(program, rank, folder)
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
