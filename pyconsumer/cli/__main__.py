"""``python -m pyconsumer.cli`` is the same as ``pyconsumer``."""

from pyconsumer.cli import main

main()
