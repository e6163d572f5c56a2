"""What the doctor says of LNet."""
from __future__ import annotations

import os

import pytest
from processes import put

from iostats.doctor.node import examine_network

NIS = """\
nid                      status alive refs peer  rtr   max    tx   min
10.9.0.3@o2ib                up     0    2    8    0   128    -7   -59
10.9.8.3@tcp               {}     0    2    8    0   256   256   249
"""
PEERS = """\
nid                      refs state  last   max   rtr   min    tx   min queue
10.9.1.23@o2ib              5    NA    -1     8     8     8   -41   -41 9312
10.9.1.29@o2ib              5    NA    -1     8     8     8    -2    -7 9312
10.9.1.31@o2ib              5    NA    -1     8     8     8     8     5 0
"""
ROUTERS = "ref  rtr_ref alive router\n4          1    up 10.9.1.1@o2ib\n4  1  {} 10.9.1.2@o2ib\n"


@pytest.mark.parametrize("interface, router, dropped, state, text", [
    ("up", "up", 7, "ok", "LNet dropped 7 of 2,307 messages (0.3 %) since it was started; 7 wait "
                          "for an interface now, 43 for 2 of 3 peers"),
    ("up", "up", 41, "note", "LNet dropped 41 of 2,341 messages (1.8 %) since it was started; 7 "
                             "wait for an interface now, 43 for 2 of 3 peers"),
    ("up", "down", 41, "note", "1 of 2 routers are down: 10.9.1.2@o2ib"),
    ("down", "down", 41, "problem", "1 of 2 interfaces are down: 10.9.8.3@tcp")])
def test_the_worst_is_reported(tmp_path, interface, router, dropped, state, text):
    place = "sys/kernel/debug/lnet"
    put(tmp_path, f"{place}/stats", f"0 23 0 1000 1300 0 {dropped} 4700 5300 0 0\n")
    put(tmp_path, f"{place}/nis", NIS.format(interface))
    put(tmp_path, f"{place}/peers", PEERS)
    put(tmp_path, f"{place}/routers", ROUTERS.format(router))
    [check] = examine_network(str(tmp_path))
    assert (state, "lnet", text) == check[:3]


def test_without_lnet_there_is_no_line(tmp_path):
    assert [] == examine_network(str(tmp_path))


def test_what_is_not_understood_is_a_note(tmp_path):
    put(tmp_path, "sys/kernel/debug/lnet/stats", "a word\n")
    assert [] == examine_network(str(tmp_path))
    (tmp_path / "sys/module/lnet").mkdir(parents=True)
    [check] = examine_network(str(tmp_path))
    assert ("note", "sys/kernel/debug/lnet/stats: expected 11 numbers, got 'a word'") == (
        check.state, check.text)
    assert bool(check.fix) == bool(os.geteuid())
