"""``python -m placement_core`` is ``placement-core``."""

import sys

from placement_core.cli import main

if __name__ == "__main__":
    sys.exit(main.main())
