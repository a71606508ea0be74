"""``python -m benchorch``."""

import sys

if not sys.flags.safe_path:
    # Python puts the current folder first, where a file may be called as a package is.
    del sys.path[0]

from benchorch.cli.main import main

main()
