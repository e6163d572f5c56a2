"""
Agents whose settings change in a real etcd while they run: what the site's server then gets.
"""
from __future__ import annotations

import json
import re
import time

import pytest
from etcd_desk import EtcdCluster
from harvest_desk import StorageDesk, a_job, shown
from processes import free_port, until
from trees import ROOT

from iostats.base import config as site
from iostats.etcd.client import Etcd, EtcdAway
from iostats.storage import follow_settings, settings
from iostats_ldms import published
from iostats_ldms.description import read

pytestmark = pytest.mark.etcd
DESK = StorageDesk


class Description:
    """The groups of agents in one etcd, and what they tell there."""

    def __init__(self, etcd):
        self.etcd = Etcd(etcd.endpoints, prefix=etcd.prefix)
        self.choices = {"etcd_endpoints": " ".join(etcd.endpoints), "etcd_prefix": etcd.prefix}
        self.revision = 0

    def load(self, hosts=("oss1",), **settings):
        """Another revision, with one group; `settings`: section_key=text.  When it was there."""
        self.revision += 1
        group = {"name": "oss", "hosts": list(hosts), "settings": {
            name.replace("_", ".", 1): text for name, text in settings.items()}}
        self.etcd.put(self.etcd.key("agents"), json.dumps(
            {"revision": self.revision, "groups": [group]}).encode())
        return time.time()

    def seen(self):
        """What the agent tells; None while it does not."""
        try:
            found = self.etcd.get(self.etcd.key("agents_seen", "oss1"))
        except EtcdAway:
            return None
        return found and json.loads(found.value)

    def until_seen(self, **expected):
        """Wait until it tells this."""
        def is_so():
            seen = self.seen()
            return seen and all(seen[name] == value for name, value in expected.items()) and seen
        return until(is_so, what=lambda: f"{expected}, not {self.seen()},")


@pytest.fixture
def description(etcd):
    one = Description(etcd)
    with one.etcd:
        yield one


def test_other_settings_are_in_force_at_the_next_sweep_and_none_is_lost(desk, description):
    """
    An interval of an hour becomes one of a second, then of two; a file system goes and comes; a
    wrong value changes nothing; and at the end site.cfg is in force again.
    """
    desk.show([a_job(0)])
    desk.show([a_job(1)], file_system="home")
    site = desk.site()
    agent = desk.begin(harvest_interval=3600, events_every=3600, **description.choices)
    description.until_seen(revision=None, group="", problem="", sweep_every_s=200)
    assert [] == site.messages
    description.load(harvest_interval="1", events_every="1")
    until(lambda: len(site.sweeps()) >= 3)
    agent.says("settings: events.every, harvest.interval changed, by description 1, group oss")
    assert {("scratch", "OST0000"), ("home", "OST0000")} == set(site.entries())
    slots = [message.slot for message in site.messages]
    assert slots == sorted(set(slots))
    assert [1] == sorted({b.seq - a.seq for a, b in zip(site.messages, site.messages[1:])})
    until(lambda: [one for one in site.events if one.head.every_s == 1.0])

    at = description.load(harvest_interval="2", harvest_file_systems="scratch")
    seen = description.until_seen(revision=2, group="oss", problem="", sweep_every_s=2)
    assert 2 == seen["settings"]["harvest.interval"] and at <= seen["time"] <= time.time()
    assert ["scratch"] == seen["settings"]["harvest.file_systems"]
    assert 3600 == seen["settings"]["events.every"]     # of site.cfg: the group has none now
    until(lambda: [2, 2, 2] == [one.every_s for one in site.messages[-3:]])
    last = [one for one in site.messages if one.every_s == 2]
    assert {0} == {one.slot % 2 for one in last}
    assert {"scratch"} == {block.file_system for one in last for block in one.targets}

    description.load(harvest_interval="soon")
    description.until_seen(revision=2, problem="description 3: harvest.interval: expected a number "
                                               "from 0 to 3600, got 'soon'")
    agent.says("got 'soon'; what is in force stays: description 2")
    description.load(harvest_interval="1")
    description.until_seen(revision=4, problem="", sweep_every_s=1)
    desk.show([a_job(1), a_job(2)], file_system="home")
    until(lambda: shown([a_job(1), a_job(2)]) == site.entries().get(("home", "OST0000")))
    description.load(hosts=["oss2"])
    description.until_seen(revision=5, group="", sweep_every_s=200)
    agent.says("harvest.interval changed, by site.cfg: no group of the description has this")
    description.load(harvest_interval="23")
    description.until_seen(revision=6, sweep_every_s=23)
    description.etcd.delete(description.etcd.key("agents"))
    description.until_seen(revision=None, group="", problem="", sweep_every_s=200)
    agent.says("harvest.interval changed, by site.cfg: there is no description")
    done = agent.stop()
    assert {"taken"} == {outcome for *_, outcome in site.heard} and "Traceback" not in done.err
    assert description.seen() is None                   # the lease goes with the agent


def test_wrong_settings_before_any_right_ones_leave_what_site_cfg_has(desk, description):
    desk.show([a_job(0)])
    desk.site()
    description.load(harvest_interval="soon")
    agent = desk.begin(**description.choices)
    agent.says("got 'soon'; what is in force stays: site.cfg")
    agent.stop()


def test_while_etcd_is_away_it_goes_on_with_what_it_has(desk, description):
    desk.show([a_job(0)])
    site = desk.site()
    description.load(harvest_interval="2")
    agent = desk.begin(**description.choices)
    description.until_seen(revision=1, sweep_every_s=2)
    agent.stop()
    nowhere = {**description.choices, "etcd_endpoints": f"http://127.0.0.1:{free_port()}"}
    other = desk.begin(**nowhere)
    count = len(site.messages)
    until(lambda: len(site.messages) >= count + 2)
    assert {2} == {one.every_s for one in site.messages[count:]}
    other.says("what is in force stays")
    assert 1 == other.stop().err.count("what is in force stays")


def test_what_could_not_be_told_while_etcd_was_away_is_told_when_it_is_back(
        desk, tmp_path, monkeypatch):
    """As by an agent that was started meanwhile; it does not wait for its next try."""
    monkeypatch.setattr(follow_settings, "_AGAIN_S", 3600.0)
    said = []
    with EtcdCluster(tmp_path / "etcd") as cluster:
        found = Description(cluster)
        found.load(harvest_interval="2")
        cluster.members[0].kill()
        config = site.load("/dev/null", environ={})
        config.etcd.endpoints, config.etcd.prefix = cluster.endpoints, cluster.prefix
        agent = follow_settings.FollowedSettings(config, "oss1", str(tmp_path), said.append)
        agent.start()
        try:
            agent.note_in_force(settings.NOTHING, {"harvest.interval": 23}, 23)
            until(lambda: said, what="that etcd is away")
            time.sleep(1)                       # and that it could not be told
            cluster.members[0].start()
            until(lambda: agent.has_news)
            seen = found.until_seen(revision=None, sweep_every_s=23)
            assert {"harvest.interval": 23} == seen["settings"]
        finally:
            agent.end()
            found.etcd.close()


def test_a_wrong_password_is_one_line_and_sweeps_go_on(desk, description):
    desk.show([a_job(0)])
    site = desk.site()
    password = desk.directory / "password"
    password.write_text("not so secret")
    password.chmod(0o644)
    agent = desk.begin(**description.choices, etcd_user="oss", etcd_password_file=password)
    agent.says("expected a file of mode 0600, got mode 0644")
    until(lambda: len(site.messages) >= 2)
    assert "Traceback" not in agent.stop().err


def test_one_run_asks_once(desk, description):
    desk.show([a_job(0)])
    desk.show([a_job(1)], file_system="home")
    site = desk.site()
    description.load(harvest_file_systems="home")
    done = desk.once(**description.choices)
    assert 0 == done.status and {("home", "OST0000")} == set(site.entries())
    # What the command line names is meant.
    desk.show([a_job(2)])
    done = desk.once(f"127.0.0.1:{desk.port}", "scratch", **description.choices)
    assert 0 == done.status and shown([a_job(2)]) == site.entries()["scratch", "OST0000"]


def test_the_description_of_the_documents_reaches_the_agent(desk, description):
    """The groups of docs/how-to/ldms.md, as `iostats ldms load` puts them into etcd."""
    page = (ROOT / "docs" / "how-to" / "ldms.md").read_text(encoding="utf-8")
    [text] = re.findall(r"```yaml\n(iostats:\n.*?)```", page, re.DOTALL)
    found, warnings = read.read_description(text)
    assert [] == warnings and ["oss", "mds"] == [one.name for one in found.agents]
    published.load(description.etcd, text, found.agents, None, by="a test")
    desk.show([a_job(0)])
    desk.show([a_job(1)], file_system="home")
    desk.show([a_job(2)], file_system="work")
    site = desk.site()
    done = desk.once(harvest_interval=23, **description.choices)
    assert 0 == done.status
    assert ("settings: events.every, events.max_kept, harvest.file_systems, harvest.interval "
            "changed, by description 1, group oss") in done.err
    assert {"scratch", "home"} == {name for name, _ in site.entries()}
    assert {10} == {one.every_s for one in site.messages}


def test_the_doctor_says_what_is_in_force_and_what_keeps_it_from_changing(desk, description):
    def doctor(**choices):
        path = desk.write_config(**{**description.choices, "node_reader": "", **choices})
        done = desk.client("doctor", "--json", "--root", desk.root, "--config", path, job=False,
                           env={"SLURMD_NODENAME": "oss1"})
        [found] = [one for one in done.record["checks"] if one["name"] == "settings"]
        return found["state"], found["text"]
    desk.show([a_job(0)])
    desk.site()
    assert ("ok", "site.cfg's: there is no description") == doctor()
    description.load(harvest_interval="2")
    assert 0 == desk.once(**description.choices).status
    assert ("ok", "description 1, group oss: harvest.interval = 2") == doctor()
    description.load(harvest_interval="soon")
    assert ("problem", "harvest.interval: expected a number from 0 to 3600, got 'soon'; what stays "
            "is that of description 1") == doctor()
    state, text = doctor(etcd_endpoints=f"http://127.0.0.1:{free_port()}")
    assert "problem" == state and text.endswith("; what stays is that of description 1")
    description.load(hosts=["oss2"])
    assert ("ok", "site.cfg's: description 3 has no group with oss1") == doctor()
