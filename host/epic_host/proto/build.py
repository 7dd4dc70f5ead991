"""Regenerates the Python code of `engine.proto`: `python -m epic_host.proto.build` (extra `dev`)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

PROTO = "epic_host/proto/epic/v1/engine.proto"
# The folder that the import path `epic_host.proto…` of the generated code starts from.
ROOT = Path(__file__).parents[2]


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
            PROTO,
        ]
    )
    if status == 0:
        # The gRPC plug-in writes no types.
        services = (out / PROTO).with_name("engine_pb2_grpc.py")
        services.write_text(f"# mypy: ignore-errors\n{services.read_text()}")
    return int(status)


if __name__ == "__main__":
    sys.exit(generate(ROOT))
