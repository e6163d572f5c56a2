#!/usr/bin/env python3
"""One per job: receive the nodes' reports, add them up, print the tables."""

import os
import sys

# Python makes its __pycache__ as the umask says: with 0 anybody could put code there, for root.
os.umask(os.umask(0o022) | 0o022)
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

try:
    from iostats.cli.server import main
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] == "iostats":
        raise
    sys.exit(f"iostats: the server needs the Python package {error.name!r}: "
             f"{sys.executable} -m pip install 'iostats[server]', or run it by the Python that "
             f"has it")

sys.exit(main())
