"""
A report whose series cannot be is refused by a running server, which goes on.
"""

import pytest
from processes import Desk
from test_time_bins import wire

from iostats.base import config as site
from iostats.base.errors import NotDelivered
from iostats.wire import client


def test_a_refused_series_leaves_nothing_behind_and_the_server_goes_on(tmp_path):
    """The same report with a series that is none, and then as it should be: counted once."""
    with Desk(tmp_path) as desk:
        running = desk.server("--nodes", "1", "--format", "json")
        secret = desk.home / ".iostats" / f"{desk.job}.secret"
        sent = {"protocol": 1, "job": desk.job, "node": "nid00023", "seq": "23", "ended": 1e9,
                "elapsed_s": 60.0, "mounts": {}, "clock_ahead_s": 0.0, "deltas": [
                    {"source": "llite", "file_system": "scratch", "values": {"open": 11}}]}
        host, choices = f"127.0.0.1:{running.port}", site.load(environ={})
        with pytest.raises(NotDelivered, match="expected arrays of equal length, got 2, 2 and 1"):
            client.deliver({**sent, "series": {"scratch": wire(operations=[11])}}, host,
                           str(secret), choices, method="report")
        client.deliver({**sent, "series": {"scratch": wire()}}, host, str(secret), choices,
                       method="report")
        [fs] = running.wait().record["file_systems"]
    assert (11, [5, 6]) == (fs["operations"]["open"]["count"], fs["series"]["operations"])
