"""What goes to etcd of a group, and how it goes on with another owner, by a real etcd."""
import json
import urllib.request

import pytest
from processes import until

from iostats.base import config as site
from iostats.etcd.client import Etcd
from iostats_ldms.membership import Membership
from iostats_ldms.service.reports import DOWN, DaemonStatus, ServiceEvent, ServiceStatus
from iostats_ldms.status.document import GroupInfo, decode_status
from iostats_ldms.status.notifications import EventSender
from iostats_ldms.status.reporter import Reporter

pytestmark = pytest.mark.etcd
GROUPS = {"agg-[1-2]": GroupInfo("aggregator", 1, 2)}
OTHERS = {"agg-[1-3]": GroupInfo("aggregator", 1, 3)}


def state(group, *daemons):
    return ServiceStatus(37, tuple(DaemonStatus(
        name, group, "aggregator", how, since, why, as_described=how == "up")
        for name, how, since, why in daemons))


class OneInstance:
    """A Membership that has `groups`, and its Reporter."""

    def __init__(self, etcd, directory, name, groups):
        self.etcd, self.said = Etcd(etcd.endpoints, prefix=etcd.prefix), []
        self.membership = Membership(self.etcd, 5, self.said.append, name)
        self.membership.set_groups({group: kind.daemons for group, kind in groups.items()})
        self.membership.start()
        (directory / "none.cfg").write_text("")
        sender = EventSender(site.load(str(directory / "none.cfg"), environ={}), "ldms-orion",
                          self.said.append)
        self.reporter = Reporter("ldms-orion", name, sender, self.said.append, self.membership,
                                 self.etcd)
        until(lambda: set(groups) == set(self.membership.groups_owned()), what="its groups")

    def kept(self, group):
        found = self.etcd.get(self.etcd.key("status", group))
        return found and decode_status(found.value)

    def end(self):
        self.membership.stop()
        self.etcd.close()


def test_another_owner_goes_on_and_what_is_described_no_more_is_over(etcd, tmp_path):
    down = state("agg-[1-2]", ("agg-1", "up", 5.0, ""), ("agg-2", "down", 23.0, "refused"))
    one = OneInstance(etcd, tmp_path, "one", GROUPS)
    try:
        # The service does not know yet that the group is its own: nothing is lost, or written.
        one.reporter.on_event(ServiceEvent(DOWN, "agg-[1-2]", "agg-2", "refused", 23.0))
        one.reporter.report(ServiceStatus(37), GROUPS)
        assert one.kept("agg-[1-2]") is None
        one.reporter.report(down, GROUPS)
        [event] = one.kept("agg-[1-2]").events
        assert (23.0, None, "agg-2: refused") == (event.time, event.over, event.message)
    finally:
        one.end()

    other = OneInstance(etcd, tmp_path, "other", GROUPS)
    try:
        later = state("agg-[1-2]", ("agg-1", "up", 60.0, ""), ("agg-2", "down", 60.0, "refused"))
        other.reporter.report(later, GROUPS)
        found = other.kept("agg-[1-2]")
        assert ((event,), "other", 23.0) == (found.events, found.instance, found.rows[1].since)
        assert not [line for line in other.said if "aggregator_down" in line], "it was logged"
    finally:
        other.end()

    third = OneInstance(etcd, tmp_path, "third", OTHERS)
    try:
        third.reporter.report(state("agg-[1-3]", *((f"agg-{number}", "up", 70.0, "")
                                                   for number in (1, 2, 3))), OTHERS)
        assert third.kept("agg-[1-2]") is None and third.kept("agg-[1-3]").events == ()
        [line] = [line for line in third.said if "aggregator_down" in line]
        assert "over after" in line and line.endswith("agg-2: refused")
    finally:
        third.end()


def test_what_is_described_no_more_is_gone_at_once(etcd, tmp_path):
    """Its aggregators would be shown twice, those that were taken out as well."""
    one = OneInstance(etcd, tmp_path, "one", GROUPS)
    ups = [(f"agg-{number}", "up", 70.0, "") for number in (1, 2, 3)]
    try:
        one.reporter.report(state("agg-[1-2]", *ups[:2]), GROUPS)
        assert 2 == one.kept("agg-[1-2]").count("up")
        one.membership.set_groups({group: kind.daemons for group, kind in OTHERS.items()})

        def is_gone():
            one.reporter.report(state("agg-[1-3]", *ups), OTHERS)
            return one.kept("agg-[1-2]") is None and one.kept("agg-[1-3]") is not None
        until(is_gone, what="the end of what is described no more")
    finally:
        one.end()


def test_nonsense_in_etcd_is_told_and_replaced(etcd, tmp_path):
    one = OneInstance(etcd, tmp_path, "one", GROUPS)
    try:
        one.etcd.put(one.etcd.key("status", "agg-[1-2]"), b"23")
        one.reporter.report(state("agg-[1-2]", ("agg-1", "up", 5.0, ""), ("agg-2", "up", 5.0, "")),
                            GROUPS)
        assert 2 == one.kept("agg-[1-2]").count("up")
        assert [line for line in one.said if "the history of this group is lost" in line]
    finally:
        one.end()


def test_an_etcd_that_is_full_is_told_once_and_what_happens_is_in_the_log(etcd, tmp_path):
    groups = {**GROUPS, "top": GroupInfo("aggregator", 2, 1)}

    def both(agg_2, top):
        return ServiceStatus(37, (*state("agg-[1-2]", ("agg-1", "up", 5.0, ""), agg_2).daemons,
                                 *state("top", top).daemons))

    def alarm(action):
        """Of NOSPACE, as etcd itself raises it."""
        urllib.request.urlopen(urllib.request.Request(
            f"{etcd.endpoints[0]}/v3/maintenance/alarm",
            json.dumps({"action": action, "memberID": "0", "alarm": "NOSPACE"}).encode()),
            timeout=9)
    one = OneInstance(etcd, tmp_path, "one", groups)
    try:
        one.reporter.report(both(("agg-2", "up", 5.0, ""), ("top", "up", 5.0, "")), groups)
        alarm("ACTIVATE")
        one.reporter.on_event(ServiceEvent(DOWN, "agg-[1-2]", "agg-2", "refused", 23.0))
        one.reporter.on_event(ServiceEvent(DOWN, "top", "top", "refused", 23.0))
        def told():
            one.reporter.report(both(("agg-2", "down", 23.0, "refused"),
                                     ("top", "down", 23.0, "refused")), groups)
            return {line.partition("aggregator_down: ")[2] for line in one.said
                    if "aggregator_down" in line} == {"agg-2: refused", "top: refused"}
        until(told, what="both in the log")
        assert told() and 1 == len([line for line in one.said
                                       if "database space exceeded" in line])
        assert not any(one.kept(group).events for group in groups)
    finally:
        alarm("DEACTIVATE")
    try:
        until(lambda: told() and all(one.kept(group).events for group in groups), what="its end")
        assert 2 == len([line for line in one.said if "aggregator_down" in line])
    finally:
        one.end()
