"""
The sinks as plug-ins: the directory is the list, and each says what it needs.
"""
from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

import pytest
from sink_desk import Answering, Said, config_of, sent
from trees import ROOT

from iostats import sinks
from iostats.base import config as site_config
from iostats.base.errors import ConfigError
from iostats.base.option_kinds import list_options
from iostats.harvest.sink import Number
from iostats.sinks import gains
from iostats.sinks.influxdb import lines
from iostats.sinks.prometheus import metrics_server, page

NAMES = sinks.list_names()
ON = {"ganglia": {"ganglia_send_to": "127.0.0.1:9"},
      "influxdb": {"influxdb_url": "http://127.0.0.1:1"},
      "prometheus": {"prometheus_listen": "127.0.0.1:0"},
      "syslog": {"syslog_send_to": "udp://127.0.0.1:9"}}


def test_the_directory_is_the_list():
    """A file is a sink, but for those that begin with an underscore."""
    assert ["ganglia", "influxdb", "prometheus", "syslog"] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_sink_has_what_it_needs(name, tmp_path):
    """Its name, its packages and where they come from; and it is off by default."""
    module = sinks.find_sink(name)
    extra = re.search(rf'(?m)^{name} = \[(.*)\]', (ROOT / "pyproject.toml").read_text())
    assert name == module.NAME
    assert module.REQUIRES == tuple(re.findall('"(.*?)"', extra[1] if extra else ""))
    assert not module.is_on(config_of())
    options = {**ON[name], "influxdb_spool_dir": tmp_path}
    assert module.is_on(config_of(**options))
    [sink] = sinks.make_sinks(config_of(**options), Said())
    try:
        assert all(isinstance(one, Number) and one.kind in ("counter", "gauge")
                   for one in sink.numbers())
        assert callable(sink.sweep) and callable(sink.drop_ids)
    finally:
        sink.close()


def test_each_sink_knows_the_others(tmp_path):
    """So that one can show what another counts."""
    both = sinks.make_sinks(config_of(**ON["influxdb"], **ON["prometheus"],
                                      influxdb_spool_dir=tmp_path),
                            Said())
    try:
        first, second = both
        assert ([second], [first]) == (first.others, second.others)
        text = second.page()[0].decode()  # type: ignore[attr-defined]  # Prometheus
        assert "iostats_influxdb_spooled_points 0.0\n" in text
    finally:
        for sink in both:
            sink.close()


def test_the_sites_server_passes_on_which_ids_are_forgotten(tmp_path):
    """An id that comes back in the very next sweep counts from 0, and is not one that fell."""
    from harvest_inside import HarvestInside

    class Sink:
        def sweep(self, sweep, harvest):
            raise AssertionError("no sweep has ended")

        def drop_ids(self, ids):
            told.append(sorted(ids))
    desk, told = HarvestInside(tmp_path / "site.sqlite"), []
    desk.harvest.sinks.append(Sink())
    desk.send("mds1", desk.block("MDT0000", ["4711", "4713"], open=23))
    desk.harvest.drop_jobs(["4711", "4713"], {})
    assert [["4711", "4713"]] == told


def test_the_sites_server_gives_them_its_sweeps(tmp_path):
    """A real Harvest, with messages as agents send them, and both sinks."""
    from harvest_inside import HarvestInside
    desk, database = HarvestInside(tmp_path / "site.sqlite"), Answering()
    both = sinks.make_sinks(config_of(
        influxdb_url=database.url, influxdb_spool_dir=tmp_path / "spool", influxdb_schema="both",
        prometheus_listen="127.0.0.1:0"), Said(), lambda: desk.now)
    desk.harvest.sinks += both

    async def turn():
        desk.harvest.end_sweep()
        for sink in both:
            await sink.walking  # type: ignore[attr-defined]  # of both
    try:
        for opens, getattrs in ((23, 3), (37, 7)):
            desk.now += 20
            desk.send("mds1", desk.block("MDT0000", ["4711"], open=opens),
                      desk.block("MDT0001", ["cp.0"], getattr=getattrs))
            asyncio.run(turn())
        sent(both[0])
        text = both[1].page()[0].decode()  # type: ignore[attr-defined]  # Prometheus
    finally:
        for sink in both:
            sink.close()
        database.close()
        desk.store.close()
    written = [line.rpartition(" ")[0] for _, _, lines in database.writes for line in lines]
    job, nobody = "lustre_job,job=4711,fs=scratch", "lustre_job,job=(unattributed),fs=scratch"
    assert [
        f"{job} open=23i,operations=23i,requests=23i,lower_bound=0i",
        "lustre,job=4711,fs=scratch,server=mds read_bytes=0i,write_bytes=0i,iops=23i",
        f"{job} open=37i,operations=37i,requests=37i,lower_bound=0i",
        f"{nobody} getattr=0i,operations=0i,requests=0i",
        f"{nobody} getattr=4i,operations=4i,requests=4i,lower_bound=0i",
        "lustre,job=4711,fs=scratch,server=mds read_bytes=0i,write_bytes=0i,iops=37i"] == written
    assert 'iostats_agent_up{node="mds1"} 1.0\n' in text
    assert re.search(r'lustre_job_stats_total{.*jobid="4711",operation="open".*} 37.0', text)


def test_the_sites_server_gives_them_its_clients(tmp_path):
    """A real Harvest, with messages as agents send them, and Ganglia's sink."""
    from ganglia_desk import UdpReceiver, values_of
    from harvest_inside import HarvestInside
    to, desk = UdpReceiver(), HarvestInside(tmp_path / "site.sqlite")
    [sink] = sinks.make_sinks(config_of(ganglia_send_to=f"127.0.0.1:{to.port}",
                                        ganglia_unnamed="yes"),
                              Said(), lambda: desk.now)

    async def turn():
        desk.harvest.end_sweep()
        await sink.walking  # type: ignore[attr-defined]  # InfluxDB
        while not sink.is_sent():  # type: ignore[attr-defined]  # InfluxDB
            await asyncio.sleep(0.001)
    try:
        desk.clients("oss1", "scratch", {"10.0.0.7@tcp": (41_000, 0, 23, 0, 37, 61)})
        desk.harvest.sinks.append(sink)
        asyncio.run(turn())
        values = values_of(to.received())
    finally:
        sink.close()
        to.close()
        desk.store.close()
    assert {"scratch_read_bytes": "2050", "scratch_write_bytes": "0", "scratch_oss_ops": "3",
            "scratch_mds_ops": "3.05"} == {name: value for (host, name), value in values.items()
                                           if host == "10.0.0.7:10.0.0.7"}


@pytest.mark.parametrize("name", NAMES)
def test_only_its_own_module_names_a_sink(name):
    """
    The directory is the list: what needs to know of a sink reads its module's attributes.  A page
    of metrics is also served by others.
    """
    files = {*(ROOT / "iostats").rglob("*.py"), *(ROOT / "packaging").glob("*.py")}
    others = files - set((ROOT / "iostats" / "sinks").rglob("*.py"))
    assert set() == {str(path) for path in others
                     if re.search(rf"\b{name}\b(?!\.metrics_server)",
                                  path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("name", NAMES)
def test_the_lists_of_packages_for_developers_have_its_extra(name):
    """Those that are not made from the modules: CI's lock file, and the tests' environment."""
    if not sinks.find_sink(name).REQUIRES:
        return
    assert f"--extra {name} " in (ROOT / "Makefile").read_text()
    assert re.search(rf"extras.*\b{name}\b", (ROOT / "tools" / "setup").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_every_default_is_itself_a_choice_that_is_allowed(name):
    """A default that its own check refuses would stop the server."""
    config = config_of()
    for key, option in list_options(sinks.find_sink(name).SECTION).items():
        config.set_value(f"{name}.{key}", option.default, "the test")
        assert config.get_value(f"{name}.{key}") == config_of().get_value(f"{name}.{key}")
        assert option.help.endswith(".") and option.expected


@pytest.mark.parametrize("text, message", [
    ("[influxdb]\nspool_dir = ~/influxdb\n",
     ":2: [influxdb] spool_dir: expected a directory whose path begins with /, got '~/influxdb'"),
    ("[influxdb]\nulr = http://db1\n", ":2: [influxdb] has no key 'ulr'; it has: url org bucket "),
    ("[prometheus]\nlisten = :9464\nlisten = :9465\n",
     ":3: [prometheus] listen is set in line 2 already; remove one"),
    ("[prometheus]\nby_target = perhaps\n",
     ":2: [prometheus] by_target: expected yes or no, got 'perhaps'"),
    ("[gains]\nurl = http://db1\n", ":2: expected one of the sections node server batch run "),
], ids=["a spool at home", "a typo in a key", "a key twice", "not a choice", "no sink's"])
def test_a_mistake_in_a_section_names_the_line(tmp_path, text, message):
    """As of all other options, but found where sinks run."""
    path = tmp_path / "site.cfg"
    path.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        sinks.add_sections(site_config.load(str(path), environ={}))
    assert str(refusal.value).startswith(f"{path}{message}")


def test_the_environment_wins_over_the_file(tmp_path):
    """As of all other options."""
    path = tmp_path / "site.cfg"
    path.write_text("[influxdb]\nbucket = mine\norg = physics\n")
    config = site_config.load(str(path), environ={"IOSTATS_INFLUXDB_BUCKET": "theirs"})
    sinks.add_sections(config)
    section: Any = config.find_section(sinks.find_sink("influxdb").SECTION)
    assert ("theirs", "environment: IOSTATS_INFLUXDB_BUCKET", "physics", f"{path}:3", "full") == (
        section.bucket, config.origin["influxdb.bucket"], section.org,
        config.origin["influxdb.org"], section.schema)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_package_is_one_line(name, monkeypatch):
    """With the command that installs it."""
    monkeypatch.setattr(sinks.find_sink(name), "IMPORTS", "no_such_package")
    with pytest.raises(ConfigError) as caught:
        sinks.make_sinks(config_of(**ON[name]), Said())
    package = sinks.get_package(sinks.find_sink(name))
    assert (f"site.cfg: [{name}]: expected the Python package {package}, which is not there; "
            f"install it: {sys.executable} -m pip install {package}") == str(caught.value)


def test_the_documents_name_every_metric_that_is_there(tmp_path):
    """docs/how-to/sinks.md's table is made of these; here it is compared with a real page."""
    options = {key: value for one in ON.values() for key, value in one.items()}
    every = sinks.make_sinks(config_of(**options, prometheus_max_nodes=23,
                                       influxdb_spool_dir=tmp_path),
                             Said())
    try:
        [shown] = [sink for sink in every if hasattr(sink, "page")]
        own = set(re.findall(r"(?m)^# HELP (\S+)", shown.page()[0].decode()))
    finally:
        for sink in every:
            sink.close()
    jobs = set(re.findall(r"(?m)^# HELP (\S+)", metrics_server.format_page([
        *page.make_job_families(page.Amounts(1, False), {}),
        *page.make_node_families([])]).decode()))
    documented = set(re.findall(r"(?m)^\| `((?:lustre_job|lustre_client|iostats)_\w+)` \|",
                                (ROOT / "docs/how-to/sinks.md").read_text(encoding="utf-8")))
    when_swept = {"iostats_sweep_timestamp_seconds", "iostats_sweep_age_seconds"}
    assert own | jobs | when_swept == documented


def test_the_documents_name_every_field(tmp_path):
    """Of the full schema; operations have the counters' own names."""
    class Column(list):
        def __init__(self, number):
            super().__init__([number])
    made = lines.sum_fields([({"read_bytes": (Column(23), Column(2300)),
                                  "write_bytes": (Column(3), Column(31)),
                                  "open": (Column(5), Column(0))}, 0)])
    text = (ROOT / "docs" / "how-to" / "sinks.md").read_text(encoding="utf-8")
    assert {"read_bytes": 2300, "read_rpcs": 23, "write_bytes": 31, "write_rpcs": 3, "open": 5,
            "operations": 5, "requests": 31} == made
    assert all(f"`{name}`" in text for name in (*made, "lower_bound"))


@pytest.mark.parametrize("by_target", [True, False])
@pytest.mark.parametrize("back_after", [20, 200])
def test_a_job_that_is_settled_and_returns_continues_its_series(tmp_path, by_target, back_after):
    """
    41,003 bytes, settled; then 1,009 more, also after a restart of the server: the series is at
    42,012 and not at 1,009, and what it gains is what it did.
    """
    from harvest_inside import HarvestInside

    class Sink:
        def __init__(self):
            self.tally = gains.Tally(by_target)

        def sweep(self, sweep, harvest):
            for _ in self.tally.walk(sweep, harvest):
                pass

        def drop_ids(self, ids):
            self.tally.drop_ids(ids)
    desk, sink = HarvestInside(tmp_path / "site.sqlite"), Sink()
    desk.harvest.sinks.append(sink)

    def sweep(at_mdt=None, **block):
        desk.now += 20
        desk.send("oss1", desk.block(**block), desk.block("MDT0000", **at_mdt or {}))
        desk.turn()

    def series():
        """{component: {counter: (samples, sum, samples gained, sum gained)}} of 4711."""
        found = {}
        for (_, component, _), table in sink.tally.tables.items():
            if table.has("4711"):
                row = table.index["4711"]
                gained = table.gains()
                found[component] = {
                    name: (int(samples[row]), int(sums[row]), *(
                        int(column[row]) for column in gained[name]))
                    for name, (samples, sums) in table.now.items() if samples[row]}
        return found
    sweep()
    sweep({"ids": ["4711"], "started": desk.now + 17, "open": 37}, ids=["4711"],
          started=desk.now + 17, read_bytes=(23, 41_003))
    assert {"ost": {"read_bytes": (23, 41_003, 23, 41_003)},
            "mdt": {"open": (37, 0, 37, 0)}} == series()
    while not desk.settled:
        sweep()
    desk.settled.clear()
    for _ in range(20, back_after, 20):
        sweep({"gone": ["4711"]}, gone=["4711"])
        assert {} == series()
    back = {"ids": ["4711"], "started": desk.now + 17}
    sweep(**back, read_bytes=(5, 1_009))
    assert {"ost": {"read_bytes": (28, 42_012, 5, 1_009)},
            "mdt": {"open": (37, 0, 0, 0)}} == series()
    sweep(**back, read_bytes=(6, 1_013))
    assert {"ost": {"read_bytes": (29, 42_016, 1, 4)}, "mdt": {"open": (37, 0, 0, 0)}} == series()
    desk.again()
    sink = Sink()
    desk.harvest.sinks.append(sink)
    sweep(**back, read_bytes=(7, 1_050))
    assert {"read_bytes": (30, 42_053)} == {
        name: both[:2] for name, both in series()["ost"].items()}
    sweep(**back, read_bytes=(8, 1_061))
    assert {"ost": {"read_bytes": (31, 42_064, 1, 11)}, "mdt": {"open": (37, 0, 0, 0)}} == series()
    while not desk.settled:
        sweep()
    sweep(gone=["4711"])
    sweep(ids=["4711"], started=desk.now + 17, read_bytes=(2, 23))
    assert {"read_bytes": (33, 42_087, 2, 23)} == series()["ost"]
