"""Regenerates the Python code of the .proto files: `python -m epic_host.proto.build` (extra `dev`)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

# The folder that the import path `epic_host.proto…` of the generated code starts from.
ROOT = Path(__file__).parents[2]
PROTOS = ("epic_host/proto/epic/v1/engine.proto", "epic_host/proto/epic/v1/manager.proto")


def generate(out: Path) -> int:
    """Write the generated files below `out`, at their import path. Returns the exit status, 0 when good."""
    protoc = importlib.import_module("grpc_tools.protoc")
    status = protoc.main(
        [
            "protoc",
            f"-I{ROOT}",
            f"--python_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_out=quiet:{out}",
            # Beside this Python, which need not be on PATH.
            f"--plugin=protoc-gen-mypy={Path(sys.executable).with_name('protoc-gen-mypy')}",
            *PROTOS,
        ]
    )
    if status == 0:
        for proto in PROTOS:
            # The gRPC plug-in writes no types.
            services = generated(out, proto, "_pb2_grpc.py")
            services.write_text(f"# mypy: ignore-errors\n{services.read_text()}")
    return int(status)


def generated(out: Path, proto: str, ending: str) -> Path:
    """The file of `proto` with this ending (`_pb2.py`, `_pb2.pyi`, `_pb2_grpc.py`) below `out`."""
    source = out / proto
    return source.with_name(source.stem + ending)


if __name__ == "__main__":
    sys.exit(generate(ROOT))
