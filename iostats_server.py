#!/usr/bin/env python3
"""One per job: receive the nodes' reports, add them up, print the tables."""

import os
import sys

if sys.version_info < (3, 9):  # noqa: UP036           # it could not even read the rest
    sys.stderr.write("iostats: %s is Python %d.%d, and 3.9 is needed; if there is a newer one: "
                     "python3.9 %s ...\n" % (sys.executable, *sys.version_info[:2], sys.argv[0]))
    sys.exit(not {"--never-fail", "prolog", "epilog"}.intersection(sys.argv))

# Python makes its __pycache__ as the umask says: with 0 anybody could put code there, for root.
os.umask(os.umask(0o022) | 0o022)
HOME = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HOME)

try:
    from iostats.cli.entry_point import run
    status = run("iostats.cli.server")
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] == "iostats":
        raise
    venv = os.path.join(HOME, "venv")                   # of `make install-...`
    if os.path.exists(venv + "/bin/python") and sys.prefix != venv:
        os.execv(venv + "/bin/python", [venv + "/bin/python", "-I", __file__, *sys.argv[1:]])
    of_site = error.name in ("sqlalchemy", "alembic")
    sys.exit(f"iostats: the server needs the Python package {error.name!r}: sudo make "
             f"install-{'site' if of_site else 'node'}, or from the checkout into a virtual "
             f"environment: python3 -m pip install '.[server{',site' if of_site else ''}]'")

sys.exit(status)
