"""
`iostats ldms run` where the name server does not answer for some samplers: all other daemons are
set up.  A real resolver, which asks a name server that is silent, five times for 30 s.
"""
from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys

import pytest
from ldms_desk import LdmsProcess, observed_at
from processes import REPOSITORY, until

DEAD = 23
DESCRIPTION = """\
daemons:
- {{names: 'node-[1-{dead}]', hosts: 'dead-[1-{dead}]', endpoints: [
    {{names: 'node-[1-{dead}]', ports: 411, maestro_comm: true}}]}}
- {{names: 'agg-[1-3]', hosts: localhost, endpoints: [
    {{names: 'agg-[1-3]', ports: [{0}, {1}, {2}], maestro_comm: true}}]}}
aggregators:
- daemons: 'agg-[1-3]'
  peers: [{{daemons: 'node-[1-{dead}]', endpoints: 'node-[1-{dead}]', reconnect: 1s, type: active,
    updaters: [{{mode: pull, interval: 1s, offset: 100ms}}]}}]
samplers:
- {{daemons: 'node-[1-{dead}]', plugins: [meminfo]}}
plugins:
  meminfo: {{name: meminfo, interval: 1s, config: [{{schema: meminfo}}]}}
"""


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_names_that_hang_in_the_resolver_delay_no_other_daemon(tmp_path):
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.53.23", 53))
    daemons = [LdmsProcess(tmp_path, f"agg-{number}").start() for number in (1, 2, 3)]
    (tmp_path / "orion.yaml").write_text(DESCRIPTION.format(
        *(daemon.port for daemon in daemons), dead=DEAD))
    (tmp_path / "resolv.conf").write_text(
        "nameserver 127.0.53.23\noptions timeout:30 attempts:5\n")
    (tmp_path / "site.cfg").write_text("[ldms]\npoll = 1\nconnect_timeout = 3\n")
    run = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c",
         'mount --bind "$1" "$(readlink -f /etc/resolv.conf)" && shift && exec "$@"', "sh",
         str(tmp_path / "resolv.conf"), sys.executable, "-m", "iostats", "ldms", "run",
         str(tmp_path / "orion.yaml"), "--config", str(tmp_path / "site.cfg")],
        cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        def producers():
            return sorted(name for daemon in daemons
                          for name in asyncio.run(observed_at(daemon.port)).producers)
        # Each aggregator knows all producers, and runs its own.  The name server is silent for
        # longer than this takes, 5 times 30 s, so that no name of a sampler was known.
        until(lambda: len(producers()) == 3 * DEAD or run.poll() is not None, 140.0,
              what=lambda: f"the producers at the aggregators: {producers()}")
        assert run.poll() is None, run.stderr.read()
        assert sorted(3 * [f"node-{number}" for number in range(1, DEAD + 1)]) == producers()
    finally:
        run.kill()
        run.wait()
        run.stderr.close()
        silent.close()
        for daemon in daemons:
            daemon.kill()
