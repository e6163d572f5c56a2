#!/usr/bin/env python3
"""On a compute node: start, stop, show.  `python3 -I -S` with its standard library is enough."""

import os
import sys

# Python makes its __pycache__ as the umask says: with 0 anybody could put code there, for root.
os.umask(os.umask(0o022) | 0o022)
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from iostats.cli.around import run

sys.exit(run("iostats.cli.node"))
