"""The doctor's line about the health of LNet on storage servers and routers."""
from __future__ import annotations

from pathlib import Path

import pytest
from processes import put

from iostats.doctor.storage import examine_lnet_health

T = 1_795_333_379.0
NIS = """\
nid                      status alive refs peer  rtr   max    tx   min
0@lo                         up     0    2    0    0     0     0     0
10.9.0.3@o2ib                up  {:>4}    2    8    0   128   123    59
"""


@pytest.fixture
def router(tmp_path):
    """A machine without targets that routes messages."""
    (tmp_path / "sys/module/lnet").mkdir(parents=True)
    put(tmp_path, "sys/kernel/debug/lnet/nis", NIS.format(37))
    return tmp_path


def test_without_lnet_and_on_a_compute_node_there_is_no_line(router):
    put(router, "sys/kernel/debug/lnet/nis", NIS.format(-1))
    assert [] == examine_lnet_health(str(router), T)
    assert [] == examine_lnet_health(str(router / "sys"), T)


def test_the_health_of_lnet(router):
    """The interfaces below the maximum, or why they are unknown."""
    path = router / "run/iostats/lnetctl"
    not_known = [("note", "lnet health", f"not known: {path}: No such file or directory",
                  "systemctl enable --now iostats-lnetctl.timer")]
    assert not_known == examine_lnet_health(str(router), T)
    (router / "sys/kernel/debug/lnet/nis").unlink()         # and on a storage server
    put(router, "proc/fs/lustre/obdfilter/scratch-OST0003/job_stats", "job_stats:\n")
    assert not_known == examine_lnet_health(str(router), T)
    path.parent.mkdir(parents=True)
    text = (Path(__file__).parents[1] / "data/lnetctl/2.12").read_text()
    path.write_text(text)
    assert [("note", "lnet health", "1 of 2 interfaces are below 1000: 10.9.0.3@o2ib: 900",
             "lnetctl net show -v 3")] == examine_lnet_health(str(router), T)
    path.write_text(text.replace("value: 900", "value: 1000"))
    assert [("ok", "lnet health", "of 2 interfaces; LNet sent 4,100,000,023 messages, and resent "
             "41 (0.0 %) since it was started", "")] == (
        examine_lnet_health(str(router), T))
