"""``python -m benchorch``."""

from benchorch.cli.main import main

main()
