"""torch.distributed's process group over a Communicator.

Method names, arguments and the shapes of their lists are torch's. Tensors have to be dense ones on the CPU; contiguous
ones are used where they lie. All ranks of a group call the same collectives in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from epic_host.communicator import Communicator
from epic_host.handle import Handle
from epic_host.torch_backend.reduction import Reduction, reduction
from epic_host.torch_backend.tensors import Buffer, buffer, check
from epic_host.torch_backend.work import EpicWork, Finisher
from epic_spec.errors import ConfigError


class EpicProcessGroup(dist.ProcessGroup):
    """One rank of a process group; `comm` is its own and is closed by `shutdown`.

    Collectives give an EpicWork. They raise ConfigError and ResourceError at once for what cannot be; what the
    communicator raises later (MismatchError, PeerLostError, AbortedError) comes from the work's `wait` and future.
    """

    def __init__(self, comm: Communicator) -> None:
        super().__init__(comm.rank, comm.world_size)
        self.comm = comm
        self._finisher = Finisher(f"epic torch rank {comm.rank}")

    # ---------------------------------------------------------------------- collectives

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> EpicWork:
        """The reduction of every rank's tensor, in place."""
        (tensor,) = tensors
        how = reduction(opts, tensor, self.size(), "all_reduce")
        data = buffer(tensor, "all_reduce: tensor", computed=True)
        handle = self.comm.all_reduce(data.array, how.operator, async_op=True)
        return self._work([handle], tensors, [data], how, [tensor])

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> EpicWork:
        """As `allreduce`, of several tensors."""
        how = [reduction(opts, tensor, self.size(), "all_reduce") for tensor in tensors]
        buffers = [buffer(tensor, "all_reduce: tensor", computed=True) for tensor in tensors]
        handles = [
            self.comm.all_reduce(data.array, one.operator, async_op=True)
            for data, one in zip(buffers, how, strict=True)
        ]

        def finish() -> None:
            for data, one, tensor in zip(buffers, how, tensors, strict=True):
                data.finish()
                one.finish(tensor)

        return self._finisher.add(EpicWork(handles, list(tensors), finish))

    def reduce(self, tensors: list[Tensor], opts: Any) -> EpicWork:
        """As `allreduce`, but only rank `opts.rootRank` receives; the others' tensors are left as they are."""
        (tensor,) = tensors
        how = reduction(opts, tensor, self.size(), "reduce")
        data = buffer(tensor, "reduce: tensor", computed=True)
        handle = self.comm.reduce(data.array, opts.rootRank, how.operator, async_op=True)
        if self.rank() != opts.rootRank:
            return self._work([handle], tensors)
        return self._work([handle], tensors, [data], how, [tensor])

    def broadcast(self, tensors: list[Tensor], opts: Any) -> EpicWork:
        """The tensor of rank `opts.rootRank` into every rank's; of any datatype."""
        (tensor,) = tensors
        data = buffer(tensor, "broadcast: tensor", computed=False)
        handle = self.comm.broadcast(data.array, opts.rootRank, async_op=True)
        return self._work([handle], tensors, [] if self.rank() == opts.rootRank else [data])

    def allgather(
        self, output_tensors: list[list[Tensor]], input_tensors: list[Tensor], opts: Any = None
    ) -> EpicWork:
        """Every rank's tensor into the list of every rank; of any datatype, and sizes may differ between ranks."""
        (outputs,), (own,) = output_tensors, input_tensors
        sizes = self._sizes(outputs, "all_gather: tensor_list")
        if own.numel() != sizes[self.rank()]:
            raise ConfigError(
                f"all_gather: tensor has {own.numel()} elements, expected {sizes[self.rank()]} as "
                f"tensor_list[{self.rank()}]"
            )
        _same_dtype([own, *outputs], "all_gather")
        send = buffer(own, "all_gather: tensor", computed=False)
        flat = torch.empty(sum(sizes), dtype=own.dtype)
        recv = buffer(flat, "all_gather: tensor_list", computed=False)
        # An unknown datatype travels as bytes, so shards are counted in what the array has.
        scale = recv.array.size // max(1, sum(sizes))
        handle = self.comm.all_gather(
            send.array, recv=recv.array, shards=[size * scale for size in sizes], async_op=True
        )

        def finish() -> None:
            for part, output in zip(flat.split(sizes), outputs, strict=True):
                output.detach().copy_(part.view(output.shape))

        return self._finisher.add(EpicWork([handle], list(outputs), finish))

    def all_gather_single(self, output: Tensor, own: Tensor, opts: Any = None) -> EpicWork:
        """Every rank's tensor, one after the other, into `output`; of any datatype."""
        _same_dtype([output, own], "all_gather_into_tensor")
        if output.numel() != own.numel() * self.size():
            raise ConfigError(
                f"all_gather_into_tensor: output has {output.numel()} elements, expected {own.numel()} of each of "
                f"{self.size()} ranks"
            )
        send = buffer(own, "all_gather_into_tensor: input", computed=False)
        recv = buffer(output, "all_gather_into_tensor: output", computed=False)
        handle = self.comm.all_gather(send.array, recv=recv.array, async_op=True)
        return self._work([handle], [output], [recv])

    def reduce_scatter(
        self, output_tensors: list[Tensor], input_tensors: list[list[Tensor]], opts: Any = None
    ) -> EpicWork:
        """The reduction of `input_tensors[0][rank]` of all ranks into `output_tensors[0]`; sizes may differ."""
        (output,), (inputs,) = output_tensors, input_tensors
        sizes = self._sizes(inputs, "reduce_scatter: input_list")
        if output.numel() != sizes[self.rank()]:
            raise ConfigError(
                f"reduce_scatter: output has {output.numel()} elements, expected {sizes[self.rank()]} as "
                f"input_list[{self.rank()}]"
            )
        _same_dtype([output, *inputs], "reduce_scatter")
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in inputs])
        return self._reduce_scattered(output, flat, sizes, opts, "reduce_scatter")

    def reduce_scatter_single(self, output: Tensor, whole: Tensor, opts: Any = None) -> EpicWork:
        """The reduction of every rank's `whole`, cut into equal parts, of which each rank receives its own."""
        _same_dtype([output, whole], "reduce_scatter_tensor")
        if whole.numel() != output.numel() * self.size():
            raise ConfigError(
                f"reduce_scatter_tensor: input has {whole.numel()} elements, expected {output.numel()} for each of "
                f"{self.size()} ranks"
            )
        return self._reduce_scattered(
            output, whole, [output.numel()] * self.size(), opts, "reduce_scatter_tensor"
        )

    def barrier(self, opts: Any = None) -> EpicWork:
        """Ends when every rank has called it."""
        return self._work([self.comm.barrier(async_op=True)], [])

    # The names under which torch calls the same things: older ones, and lists of them (_coalescing_manager).

    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single

    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> EpicWork:
        """As `all_gather_single`, of several pairs."""
        works = [self.all_gather_single(*pair, opts) for pair in zip(outputs, inputs, strict=True)]
        return self._together(works, outputs)

    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> EpicWork:
        """As `reduce_scatter_single`, of several pairs."""
        works = [self.reduce_scatter_single(*pair, opts) for pair in zip(outputs, inputs, strict=True)]
        return self._together(works, outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # What in-network collectives are not: said by name instead of torch's "not implemented".

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ConfigError(
            "torch backend epic: gather, scatter, all_to_all, send and recv, expected all_reduce, reduce, broadcast, "
            "all_gather, reduce_scatter or barrier (use a gloo group beside it: dist.new_group(backend='gloo'))"
        )

    gather = scatter = alltoall = alltoall_base = all_to_all_single = _refuse
    send = recv = recv_anysource = allgather_coalesced = _refuse

    # ---------------------------------------------------------------------- life and death

    def abort(self) -> None:
        """End all collectives with AbortedError, at once. The other ranks find this one missing."""
        self.comm.abort()

    def shutdown(self) -> None:
        """Close the communicator; `dist.destroy_process_group` calls it. More than one call is allowed."""
        self.comm.close()
        self._finisher.close()

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """The name of the backend."""
        return "epic"

    def name(self) -> str:
        """The name of the backend."""
        return "epic"

    def _get_backend_name(self) -> str:
        return "epic"

    # ---------------------------------------------------------------------- inside

    def _reduce_scattered(
        self, output: Tensor, whole: Tensor, sizes: Sequence[int], opts: Any, where: str
    ) -> EpicWork:
        how = reduction(opts, output, self.size(), where)
        send = buffer(whole, f"{where}: input", computed=True)
        recv = buffer(output, f"{where}: output", computed=True)
        handle = self.comm.reduce_scatter(
            send.array, how.operator, recv=recv.array, shards=sizes, async_op=True
        )
        return self._work([handle], [output], [recv], how, [output])

    def _work(
        self,
        handles: list[Handle],
        tensors: list[Tensor],
        buffers: Sequence[Buffer] = (),
        how: Reduction | None = None,
        reduced: Sequence[Tensor] = (),
    ) -> EpicWork:
        """The work of a collective that writes `buffers` and so completes `tensors`."""

        def finish() -> None:
            for data in buffers:
                data.finish()
            if how is not None:
                for tensor in reduced:
                    how.finish(tensor)

        return self._finisher.add(EpicWork(handles, list(tensors), finish))

    def _together(self, works: list[EpicWork], tensors: list[Tensor]) -> EpicWork:
        """One work for several that are under way: they end before it, for the finisher takes them in order."""

        def finish() -> None:
            for work in works:
                work.wait()

        return self._finisher.add(EpicWork([], list(tensors), finish))

    def _sizes(self, tensors: Sequence[Tensor], where: str) -> list[int]:
        if len(tensors) != self.size():
            raise ConfigError(f"{where} has {len(tensors)} tensors, expected one a rank: {self.size()}")
        for i, tensor in enumerate(tensors):
            check(tensor, f"{where}[{i}]")
        return [tensor.numel() for tensor in tensors]


def _same_dtype(tensors: Sequence[Tensor], where: str) -> None:
    found = {tensor.dtype for tensor in tensors}
    if len(found) > 1:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in found))
        raise ConfigError(f"{where}: tensors of {names}, expected one datatype")
