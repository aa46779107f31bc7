"""What holds for all Python tests."""

import os
import sys

# Tests say the same on every machine, and two workers share two cores.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Every model that is optimized is optimized a second time, which must change nothing.
os.environ.setdefault("SARDONYX_CHECK_FIXED_POINT", "1")


def pytest_configure(config):
    # Workers that count lines write them down when they end, and are given ten seconds for that: those of one were lost.
    if "coverage" in sys.modules:
        from xdist.workermanage import NodeManager

        NodeManager.EXIT_TIMEOUT = 300
