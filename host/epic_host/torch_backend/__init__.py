"""torch.distributed over EPIC: `import epic_host.torch_backend`, then `init_process_group("epic")`.

    EPIC_MANAGER=unix:/run/epic/manager.sock torchrun --nproc-per-node 4 train.py

Needs the extra `epic-inc[torch]`. Where the collectives run: `Options`, or the environment. Importing registers the
backend for CPU tensors. Its tests are skipped where torch is absent: `python -m pytest tests/host/torch` beside it.
"""

from __future__ import annotations

from typing import Any

try:
    import torch.distributed as dist
except ModuleNotFoundError as error:
    raise ImportError(f"epic_host.torch_backend: {error}, expected the extra epic-inc[torch]") from None

from epic_host.torch_backend.options import Options
from epic_host.torch_backend.process_group import EpicProcessGroup
from epic_host.torch_backend.rendezvous import communicator

__all__ = ["EpicProcessGroup", "Options", "create"]


def create(options: Any, backend_options: Any = None) -> EpicProcessGroup:
    """What torch calls for `init_process_group` and `new_group`, with its `_DistributedBackendOptions`.

    `backend_options` is the caller's `pg_options`: an Options, or None for what the environment says.
    """
    own = Options.from_environment() if backend_options is None else backend_options
    # The default group has an empty list: it is everybody.
    ranks = tuple(options.global_ranks_in_group) or tuple(range(options.group_size))
    comm = communicator(own, options.store, options.group_rank, ranks, options.timeout)
    return EpicProcessGroup(comm)


dist.Backend.register_backend("epic", create, extended_api=True, devices="cpu")
