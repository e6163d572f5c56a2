"""
The pages of iostats as a Passenger app of Open OnDemand: docs/how-to/web.md.

Passenger starts it with bin/python, as the user who has signed in.
"""

import sys

sys.path.insert(0, "@LIBDIR@")
from iostats.web.wsgi import OnDemandApp

application = OnDemandApp()
