"""
From the exports of a storage server to Ganglia and Prometheus: a real agent, a real site's server,
a real gmond.
"""
from __future__ import annotations

import re
import time
import urllib.request

import pytest
from ganglia_desk import Gmond
from processes import free_port, until
from site_desk import SiteDesk
from storage import StorageServer, moved

HEADER = "snapshot_time             {now}.000000000 secs.nsecs\n" \
         "start_time                {began}.000000000 secs.nsecs\n" \
         "elapsed_time              {age}.000000000 secs.nsecs\n"


class Exports:
    """The exports of one OST of a StorageServer, which somebody writes to."""

    def __init__(self, storage_server, target="OST0000"):
        storage_server.show(target, {"4711": moved(1)})
        self.directory = (storage_server.root / "proc/fs/lustre/obdfilter" / f"scratch-{target}"
                          / "exports")
        self.began = int(time.time()) - 100

    def show(self, nid, written, creates):
        """A client has written so many bytes in requests of 1000, and asked for so much else."""
        now = int(time.time())
        path = self.directory / nid / "stats"
        path.parent.mkdir(exist_ok=True)
        calls = written // 1000
        text = HEADER.format(now=now, began=self.began, age=now - self.began)
        if calls:
            text += (f"write_bytes               {calls} samples [bytes] 1000 1000 {written} "
                     f"{1000 * written}\n"
                     f"write                     {calls} samples [usecs] 23 23 {23 * calls} "
                     f"{529 * calls}\n")
        text += (f"create                    {creates} samples [usecs] 37 37 {37 * creates} "
                 f"{1369 * creates}\n")
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").rename(path)


@pytest.mark.ganglia
def test_what_clients_do_is_in_ganglia_and_prometheus(tmp_path):
    """The counters are exact; the rates are there while the nodes write, in hosts of their own."""
    desk, port = SiteDesk(tmp_path), free_port()
    gmond = Gmond(tmp_path / "gmond")
    try:
        names = tmp_path / "names"
        names.write_text("10.77.0.11@tcp node1\n10.9.0.11@o2ib node1\n10.77.0.12@tcp node2\n")
        desk.configure(harvest_interval=1, harvest_exports="yes", harvest_cpu_percent=100,
                       clients_names=names)
        site = desk.site(env={"IOSTATS_GANGLIA_SEND_TO": f"127.0.0.1:{gmond.port}",
                              "IOSTATS_PROMETHEUS_LISTEN": f"127.0.0.1:{port}",
                              "IOSTATS_PROMETHEUS_MAX_NODES": "23"})
        storage_server = StorageServer(desk, "oss1")
        exports = Exports(storage_server)
        for nid in ("10.77.0.11@tcp", "10.9.0.11@o2ib", "10.77.0.12@tcp", "0@lo"):
            exports.show(nid, 7000, 3)
        agent = storage_server.agent()

        def counters(name):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as page:
                text = page.read().decode()
            return {node: float(value) for node, value in re.findall(
                rf'(?m)^{re.escape(name)}[{{,].*node="([^"]*)"\}} (\S+)$', text)}
        # What was there before the first sweep is nobody's news.
        until(lambda: {"node1": 0, "node2": 0, "(storage servers)": 0} == counters(
            "lustre_client_write_bytes_total"), what="the nodes")

        written = [7000]

        def has_rates():
            written[0] += 41_000
            exports.show("10.77.0.11@tcp", written[0], 3)
            exports.show("10.9.0.11@o2ib", 7000 + written[0] // 41_000 * 1000, 10)
            time.sleep(0.25)
            found = gmond.hosts().get(("node1", "10.77.0.11"), {})
            return len(found) == 4 and 0 < float(found["scratch_write_bytes"].get("VAL"))
        until(has_rates, what="the rates of node1")
        exports.show("10.9.0.11@o2ib", 10_000_000, 10)
        exports.show("10.77.0.12@tcp", 7000 + 37_000, 3)
        until(lambda: {"node1": written[0] - 7000 + 10_000_000 - 7000, "node2": 37_000,
                       "(storage servers)": 0} == counters("lustre_client_write_bytes_total"),
              what=lambda: f"{written} in {counters('lustre_client_write_bytes_total')}")
        assert {"node1": 7, "node2": 0, "(storage servers)": 0} == counters(
            'lustre_client_operations_total{component="ost"')
        assert {} == counters("lustre_client_lower_bound")
        until(lambda: ("node2", "10.77.0.12") in gmond.hosts(), what="node2")
        assert {"node1", "node2"} == {name for name, address in gmond.hosts()
                                      if address != "127.0.0.1"}
        agent.terminate()
        agent.communicate()
        done = site.stop()
        assert 0 == done.status and "internal error" not in done.err
    finally:
        gmond.stop()
        desk.close()
