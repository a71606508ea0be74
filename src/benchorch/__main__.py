"""``python -m benchorch``."""

from benchorch.cli import main

main()
