#!/usr/bin/env python3
"""On a compute node: start, stop, show.  `python3 -I -S` with its standard library is enough."""

import gc
import os
import sys

if sys.version_info < (3, 9):  # noqa: UP036           # it could not even read the rest
    sys.stderr.write("iostats: %s is Python %d.%d, and 3.9 is needed; if there is a newer one: "
                     "python3.9 %s ...\n" % (sys.executable, *sys.version_info[:2], sys.argv[0]))
    sys.exit(not {"--never-fail", "prolog", "epilog"}.intersection(sys.argv))

# Python makes its __pycache__ as the umask says: with 0 anybody could put code there, for root.
os.umask(os.umask(0o022) | 0o022)
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

is_short = not {"start", "mark", "stop", "prolog", "epilog", "1", "2"}.isdisjoint(sys.argv[1:2])
if is_short:
    gc.disable()                        # it takes 1 of 17 ms, and finds nothing

from iostats.cli.entry_point import end, run

end(run("iostats.cli.node"), is_short)
