"""`python -m sardonyx.plugins FILE... [--diff]`: checks the source of plugins."""

import sys

from sardonyx.plugins.lint import main

if __name__ == "__main__":
    sys.exit(main())
