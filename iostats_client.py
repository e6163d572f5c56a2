#!/usr/bin/env python3
"""On a compute node: start, stop, show.  `python3 -I -S` with its standard library is enough."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from iostats.cli.node import main

sys.exit(main())
