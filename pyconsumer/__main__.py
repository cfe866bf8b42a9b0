"""``python -m pyconsumer`` is the same as the command ``pyconsumer``."""

from pyconsumer.cli import main

main()
