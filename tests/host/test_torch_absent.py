"""Without torch the backend says what is missing; with it the tests are those of tests/host/torch."""

from __future__ import annotations

import importlib
import importlib.util

import pytest


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_the_backend_without_torch_names_the_extra() -> None:
    with pytest.raises(ImportError, match=r"No module named 'torch', expected the extra epic-inc\[torch\]"):
        importlib.import_module("epic_host.torch_backend")
