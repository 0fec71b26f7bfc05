"""The process of a point: ``python -m zoo.bench POINT``."""

import sys

from zoo.bench.point import main

main(sys.argv[1])
