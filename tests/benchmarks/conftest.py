"""The folder `benchmarks` lies beside the package and is not installed: the tests look for it at the root."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
