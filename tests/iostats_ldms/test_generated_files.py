"""
Generated files are accepted by ldmsd, simulated and real, and the sets reach the highest level.
"""
import asyncio
import subprocess
import sys

import pytest
from ldms_desk import EITHER, observed_at, real_version
from processes import REPOSITORY, free_port, until

from iostats_ldms.cli import generate
from iostats_ldms.control.errors import ControlError
from iostats_ldms.description.read import read_description
from iostats_ldms.statements.dialect import get_dialect

NAMES = ("s-1", "s-2", "s-3", "agg-1", "agg-2", "top")
TEXT = """
daemons:
  - names: "s-[1-3]"
    hosts: 127.0.0.1
    environment: {{CLUSTER: orion}}
    endpoints: [{{names: "p-[1-3]", ports: "{s1},{s2},{s3}",
                  auth: {{name: own, plugin: none}}}}]
  - {{names: "agg-[1-2]", hosts: 127.0.0.1, log_level: INFO,
     endpoints: [{{names: "a-[1-2]", ports: "{a1},{a2}"}}]}}
  - {{names: top, hosts: 127.0.0.1, endpoints: [{{names: top-ep, ports: {top}}}]}}
samplers:
  - {{daemons: "s-[1-3]", plugins: [mem, vm]}}
plugins:
  mem: {{name: meminfo, interval: 200ms, offset: 0, config: [{{schema: mem, perm: "777"}}]}}
  vm: {{name: vmstat, interval: 200ms, config: ["schema=vm producer=x instance=${{CLUSTER}}/vm"]}}
  csv: {{name: store_csv, config: [{{path: {path}, altheader: 0}}]}}
aggregators:
  - daemons: "agg-[1-2]"
    peers:
      - {{endpoints: "p-[1-3]", reconnect: 1s, type: active,
         updaters: [{{interval: 200ms, offset: 20ms, mode: pull,
                     sets: [{{regex: "mem", field: schema}}]}}]}}
    subscribe: [{{stream: kokkos, regex: ".*"}}]
  - daemons: top
    peers:
      - {{endpoints: "a-[1-2]", reconnect: 1s, type: active,
         updaters: [{{interval: 200ms, offset: 50ms, mode: auto}}]}}
    prdcr_listen: [{{name: others, regex: "login-.*"}}]
stores:
  mem: {{daemons: top, plugin: csv, container: box, schema: mem, flush: 1s}}
"""


@pytest.fixture(params=EITHER)
def cluster(request, tmp_path):
    """(release, {daemon: port}) of daemons that run with generated files."""
    version = real_version() if request.param == "real" else request.param
    ports = [free_port() for _ in NAMES]
    found, _ = read_description(TEXT.format(**dict(zip(("s1", "s2", "s3", "a1", "a2", "top"),
                                                       ports)),
                                       path=tmp_path))
    texts = generate.make_texts(found, get_dialect(version), found.daemons)
    generate.write_files(str(tmp_path), texts, texts)
    running = []
    try:
        for name in NAMES:
            command = ([sys.executable, "-m", "simldms", "--version", version]
                       if request.param != "real" else
                       ["ldmsd", "-F", "-l", f"{tmp_path}/{name}.log",
                        "-r", f"{tmp_path}/{name}.pid"])
            with open(tmp_path / f"{name}.out", "wb") as out:
                running.append(subprocess.Popen(
                    [*command, "-c", f"{tmp_path}/{name}.conf", "-n", name], cwd=REPOSITORY,
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out))
        yield version[:3], dict(zip(NAMES, ports)), tmp_path
        assert [None] * len(NAMES) == [daemon.poll() for daemon in running]
    finally:
        for daemon in running:
            daemon.kill()
            daemon.wait()


def sets_at(port):
    try:
        return sorted(one.instance for one in asyncio.run(observed_at(port, with_sets=True)).sets)
    except ControlError:
        return []


def test_sets_reach_the_highest_level(cluster):
    """The updaters take schema mem alone; `pull` is no auto_interval."""
    release, ports, _ = cluster
    expected = ["s-1/mem", "s-2/mem", "s-3/mem"]

    until(lambda: expected == sets_at(ports["top"]), what=lambda: str(sets_at(ports["top"])))
    seen = asyncio.run(observed_at(ports["agg-1"]))

    assert ["p-1", "p-3"] == sorted(seen.producers)
    assert ["updtr_0"] == list(seen.updaters)
    assert (False, 200_000) == (seen.updaters["updtr_0"].auto_interval,
                                seen.updaters["updtr_0"].interval_us)
    assert asyncio.run(observed_at(ports["top"])).updaters["updtr_1"].auto_interval
    plugins = set(asyncio.run(observed_at(ports["s-2"])).plugins)
    assert ({"mem", "vm"} if release != "4.4" else {"meminfo", "vmstat"}) <= plugins


@pytest.mark.ldms
@pytest.mark.parametrize("cluster", [EITHER[-1]], indirect=True)
def test_a_real_store_has_rows(cluster):
    _, _, directory = cluster

    until(lambda: any("s-3" in path.read_text() for path in directory.glob("box/mem*")))
