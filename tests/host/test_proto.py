"""The generated code of the control plane is that of its .proto files."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_host.proto import build


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("grpc_tools")
    out = tmp_path_factory.mktemp("generated")
    assert build.generate(out) == 0
    return out


def _described(file: Path) -> str:
    (line,) = [line for line in file.read_text().splitlines() if "AddSerializedFile" in line]
    return line


def _methods(file: Path) -> list[str]:
    return sorted(line.strip() for line in file.read_text().splitlines() if "'/epic.v1" in line)


@pytest.mark.parametrize("proto", build.PROTOS)
def test_the_generated_code_is_that_of_the_proto_file(fresh: Path, proto: str) -> None:
    kept, made = (build.generated(root, proto, "_pb2.py") for root in (build.ROOT, fresh))
    assert _described(kept) == _described(made)
    kept, made = (build.generated(root, proto, "_pb2.pyi") for root in (build.ROOT, fresh))
    assert kept.read_text() == made.read_text()
    kept, made = (build.generated(root, proto, "_pb2_grpc.py") for root in (build.ROOT, fresh))
    assert _methods(kept) == _methods(made) != []


def test_every_proto_file_is_generated() -> None:
    found = {str(path.relative_to(build.ROOT)) for path in build.ROOT.rglob("*.proto")}
    assert found == set(build.PROTOS)
