"""What holds for all Python tests."""

import os

# Tests say the same on every machine, and two workers share two cores.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
