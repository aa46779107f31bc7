"""Settings for all Python tests."""

import os
import sys

# Tests behave the same on every machine, and two workers share two cores.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Every model that is optimized is optimized a second time, which must change nothing.
os.environ.setdefault("SARDONYX_CHECK_FIXED_POINT", "1")


def pytest_configure(config):
    # Workers that measure coverage write their counts when they end, and get ten seconds for it: one worker's
    # counts were lost otherwise.
    if "coverage" in sys.modules:
        from xdist.workermanage import NodeManager

        NodeManager.EXIT_TIMEOUT = 300
