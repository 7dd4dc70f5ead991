"""Makes the virtual environment of p4runtime-shell, the independent client: `python tests/p4/p4runtime/shell_env.py`.

`make setup` calls it; the tests call it too, so that they also run alone. It does nothing when the environment has been
made from the same shell_requirements.txt.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "shell_requirements.txt"
BUILD = HERE.parents[2] / "build"
ENVIRONMENT = BUILD / "p4rt-shell-venv"
_SECONDS = 600


def ensure() -> Path:
    """The Python of the environment, which is made first when it is missing or out of date."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / ".stamp"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    BUILD.mkdir(exist_ok=True)
    # Tests run in several processes; one of them makes it, the others wait.
    with (BUILD / "p4rt-shell-venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if python.exists() and stamp.exists() and stamp.read_text() == wanted:
            return python
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(ENVIRONMENT))
        pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        _run(*pip, "--requirement", str(REQUIREMENTS))
        stamp.write_text(wanted)
    return python


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(f"{' '.join(command[:4])} …: {lines[-1] if lines else 'failed'}")


if __name__ == "__main__":
    print(f"p4runtime-shell: {ensure()}")
