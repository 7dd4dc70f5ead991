"""Where many simulations run: processes of this machine, or workers of a Dask cluster."""

from __future__ import annotations

import hashlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from epic_spec.errors import ConfigError, EpicError

_DASK: Final = "dask://"
# Seconds for a cluster to answer, and to have a worker.
_PATIENCE: Final = 20


class Executor(Protocol):
    """Runs a function on many tuples of arguments."""

    def results(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """(index of the task, its result), as they come."""


@contextmanager
def executor(name: str | None, workers: int) -> Iterator[Executor]:
    """Processes, or the cluster that `name` says: dask://HOST:PORT. Raises ConfigError."""
    if name is None:
        # Spawned: a fork would copy whatever threads this process has.
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            try:
                yield _Processes(pool)
            finally:
                pool.shutdown(cancel_futures=True)
        return
    address = name.removeprefix(_DASK)
    host, _, port = address.rpartition(":")
    if address == name or not host or not port.isdecimal():
        raise ConfigError(f"executor = {name!r}, expected dask://HOST:PORT of a Dask scheduler")
    with _cluster(name, address) as client:
        yield _Dask(client)


class _Processes:
    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def results(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        futures: dict[Future[Any], int] = {
            self._pool.submit(function, *task): i for i, task in enumerate(tasks)
        }
        for future in as_completed(futures):
            yield futures[future], future.result()


class _Dask:
    def __init__(self, client: Any) -> None:
        self._client = client

    def results(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        from distributed import as_completed as as_they_come

        futures = {self._client.submit(function, *task, pure=False): i for i, task in enumerate(tasks)}
        try:
            for future in as_they_come(list(futures)):
                error = future.exception()
                if error is not None:
                    raise EpicError(f"a worker of the cluster: {type(error).__name__}: {error}")
                yield futures[future], future.result()
        finally:
            self._client.cancel(list(futures))


@contextmanager
def _cluster(name: str, address: str) -> Iterator[Any]:
    """A client of a scheduler all of whose workers have these very sources."""
    try:
        from distributed import Client
    except ImportError:
        raise ConfigError(
            f"executor = {name!r}, expected the package distributed: pip install 'epic-inc[dask]'"
        ) from None
    try:
        client = Client(f"tcp://{address}", timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise ConfigError(f"executor = {name!r}: {_line(error)}, expected a Dask scheduler there") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise ConfigError(f"executor = {name!r}: no workers, expected one or more") from None
        try:
            theirs = client.run(sources)
        except Exception as error:  # whatever a worker without the package raises
            raise ConfigError(
                f"executor = {name!r}: {_line(error)}, expected workers that have epic-inc installed"
            ) from None
        for worker, digest in theirs.items():
            if digest != sources():
                raise ConfigError(
                    f"executor = {name!r}: worker {worker} has other sources of epic_models, expected the same"
                )
        yield client


def sources() -> str:
    """A digest of the sources of this package: what a worker has, so that all results are of one simulator."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
