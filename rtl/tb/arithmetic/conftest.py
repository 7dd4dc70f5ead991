"""Where the benches of this folder find each other."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # fp_checks, fp_unit, fp_values
