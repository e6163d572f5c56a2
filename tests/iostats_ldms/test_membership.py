"""
Instances of `iostats ldms run` by a real etcd: each group has one owner, and who lost it does no
more, however it lost it.
"""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from processes import REPOSITORY, until

from iostats.etcd.client import Etcd, EtcdAway
from iostats_ldms.membership import Membership

pytestmark = pytest.mark.etcd
GROUPS = {"node[001-100]": 100, "agg-[1-4]": 4, "l2/top": 1}
LEASE_S = 5


class Late(Etcd):
    """What it reads can be held back: an instance does not learn what others do."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.let, self.waiting = threading.Event(), threading.Event()
        self.let.set()

    def _late(self, answer):
        if not self.let.is_set():
            self.waiting.set()
            self.let.wait()
        return answer

    def range(self, *arguments, **named):
        return self._late(super().range(*arguments, **named))

    def follow(self, *arguments, **named):
        yield from map(self._late, super().follow(*arguments, **named))

    @contextlib.contextmanager
    def held_back(self):
        """From when a look waits for its answer."""
        self.let.clear()
        try:
            assert self.waiting.wait(60)
            yield
        finally:
            self.let.set()


class Instances:
    """Memberships in this process, of the etcd of a test."""

    def __init__(self, endpoints, prefix):
        self.endpoints, self.prefix, self.all, self.said = endpoints, prefix, [], []
        self.etcd = Etcd(endpoints, prefix=prefix)
        self.etcds = [self.etcd]

    def begin(self, name, groups=GROUPS, lease_s=LEASE_S, etcd=None, **more):
        etcd = etcd or Etcd(self.endpoints, prefix=self.prefix)
        one = Membership(etcd, lease_s, lambda text: self.said.append(f"{name}: {text}"), name,
                         **more)
        self.etcds.append(etcd)
        if groups is not None:
            one.set_groups(groups)
        one.start()
        self.all.append(one)
        return one

    def end(self):
        for one in self.all:
            one.stop()
        for one in self.etcds:
            one.close()

    def owners(self):
        return {key_value.key.rpartition("/")[2]: key_value.value.decode()
                for key_value in self.etcd.range(self.etcd.below("owners"))[0]}


@pytest.fixture
def instances(etcd):
    made = Instances(etcd.endpoints, etcd.prefix)
    yield made
    made.end()


def counts(*instances):
    return sorted(len(one.groups_owned()) for one in instances)


def test_three_share_three_groups_and_one_that_stops_leaves_its_own_at_once(instances):
    a = instances.begin("a")
    until(lambda: set(GROUPS) == set(a.groups_owned()), what="all groups")
    assert all(map(a.may_command, GROUPS)) and not a.may_command("another")
    b, c = instances.begin("b", lease_s=600), instances.begin("c")
    until(lambda: [1, 1, 1] == counts(a, b, c), what=lambda: f"{instances.said}")
    assert ["node[001-100]"] == list(a.groups_owned()), "the largest stayed"
    assert 3 == len({group for one in (a, b, c) for group in one.groups_owned()})
    b.stop()
    assert {} == b.groups_owned()
    until(lambda: [1, 2] == counts(a, c), what="the two that are left, long before its lease ends")
    assert {"a", "c"} == set(instances.owners().values())


def test_a_group_that_is_described_no_more_has_no_owner(instances):
    a = instances.begin("a")
    until(lambda: 3 == len(a.groups_owned()), what="all groups")
    a.set_groups({"agg-[1-4]": 4, "new": 2})
    until(lambda: {"agg-[1-4]", "new"} == set(a.groups_owned()), what="the new groups")
    until(lambda: {"agg-%5B1-4%5D", "new"} == set(instances.owners()), what="its key is gone")


def test_one_that_has_no_description_yet_leaves_all_to_the_others(instances):
    instances.begin("a", groups=None)
    b = instances.begin("b")
    until(lambda: 3 == len(b.groups_owned()), what="all groups")


def test_two_of_one_name_are_two(instances):
    a = instances.begin("mgmt1")
    until(lambda: 3 == len(a.groups_owned()), what="all groups")
    b = instances.begin("mgmt1")
    until(lambda: [1, 2] == counts(a, b), what=lambda: f"{instances.said}")
    assert a.name == "mgmt1" != b.name


def test_what_an_owner_writes_is_written_only_while_it_is_the_owner(instances):
    """Another has the group, which this one does not know yet: it was stopped for a while."""
    late = Late(instances.endpoints, prefix=instances.prefix)
    a = instances.begin("a", etcd=late)
    until(lambda: 3 == len(a.groups_owned()), what="all groups")
    key, owner = instances.etcd.key("status", "l2/top"), instances.etcd.key("owners", "l2/top")
    assert a.write("l2/top", [(key, b"23")])
    assert b"23" == instances.etcd.get(key).value
    assert not a.write("another", [(key, b"37")])
    with late.held_back():
        instances.etcd.put(owner, b"a", instances.etcd.get(owner).lease)
        assert a.write("l2/top", [(key, b"37")]), "its own key, though it was written again"
        instances.etcd.delete(owner)
        instances.etcd.put(owner, b"b", instances.etcd.grant(60))
        assert a.may_command("l2/top")
        assert not a.write("l2/top", [(key, b"41")])
        assert b"37" == instances.etcd.get(key).value
        assert not a.may_command("l2/top")


def test_an_owner_key_that_was_written_by_hand_keeps_no_group_unwatched(instances):
    """`etcdctl put` without a lease: no instance's end would ever free it."""
    a = instances.begin("a")
    until(lambda: 3 == len(a.groups_owned()), what="all groups")
    owner = instances.etcd.key("owners", "l2/top")
    instances.etcd.put(owner, b"junk")
    until(lambda: b"a" == getattr(instances.etcd.get(owner), "value", None)
          and "l2/top" in a.groups_owned(), what=lambda: f"its group again: {instances.said}")
    assert 1 == len([line for line in instances.said if line == "a: the owner of l2/top in etcd "
                     "was written by hand ('junk'); the key was deleted, and the group is free"])


def test_a_lease_that_is_gone_is_noticed_and_another_is_taken(instances):
    a = instances.begin("a")
    until(lambda: 3 == len(a.groups_owned()), what="all groups")
    fences = a.groups_owned()
    [own] = instances.etcd.range(instances.etcd.below("instances"))[0]
    instances.etcd.revoke(own.lease)
    until(lambda: set(GROUPS) == set(a.groups_owned())
          and not set(fences.values()) & set(a.groups_owned().values()), what="all groups again")


def test_its_own_key_that_was_deleted_by_hand_is_made_again(instances):
    """Its groups stay its own: their keys were there all the time."""
    a = instances.begin("a")
    until(lambda: 3 == len(a.groups_owned()), what="all groups")
    fences, etcd = a.groups_owned(), instances.etcd
    key = etcd.key("instances", "a")
    lease = etcd.get(key).lease
    etcd.delete(key)
    until(lambda: (found := etcd.get(key)) and json.loads(found.value)["ready"],
          what=lambda: f"its key: {instances.said}")
    assert lease == etcd.get(key).lease and fences == a.groups_owned()
    until(lambda: 1 == len([line for line in instances.said if "was deleted" in line]),
          what=lambda: f"that is told: {instances.said}")
    b = instances.begin("b")
    until(lambda: [1, 2] == counts(a, b), what=lambda: f"it has its share: {instances.said}")
    b.stop()
    until(lambda: 3 == len(a.groups_owned()), what=lambda: f"it takes groups: {instances.said}")


def test_whose_name_another_took_after_its_key_was_deleted_gets_a_new_one(instances):
    a = instances.begin("a")
    until(lambda: 3 == len(a.groups_owned()), what="all groups")
    fences, etcd = a.groups_owned(), instances.etcd
    etcd.delete(etcd.key("instances", "a"))
    etcd.put(etcd.key("instances", "a"), b'{"ready": false}')
    until(lambda: "a" != a.name and 3 == len(a.groups_owned()),
          what=lambda: f"all groups again: {instances.said}")
    assert not set(fences.values()) & set(a.groups_owned().values())
    assert {a.name} == set(instances.owners().values())


def test_a_group_whose_key_was_deleted_by_hand_is_commanded_no_more(instances, monkeypatch):
    """At once, though etcd answers no question just now; then it is free for all."""
    a = instances.begin("a", lease_s=60)                # of which a busy machine needs some
    own = instances.etcds[-1]
    until(lambda: 3 == len(a.groups_owned()), what="all groups")
    fence = a.groups_owned()["l2/top"]

    def away(prefix):
        raise EtcdAway("away")
    monkeypatch.setattr(own, "range", away)
    instances.etcd.delete(instances.etcd.key("owners", "l2/top"))
    until(lambda: not a.may_command("l2/top"), what=lambda: f"it is dropped: {instances.said}")
    assert {"node[001-100]", "agg-[1-4]"} == set(a.groups_owned())
    monkeypatch.undo()
    until(lambda: a.groups_owned().get("l2/top", fence) > fence, what="it is taken again")


def test_an_instance_whose_service_stands_still_gives_all_to_others(instances):
    """As after SIGSTOP: its clock here is 100 s ahead of its last beat, and of its last renewal."""
    ahead = [0.0]
    a = instances.begin("a", now=lambda: time.clock_gettime(time.CLOCK_BOOTTIME) + ahead[0])
    until(lambda: 3 == len(a.groups_owned()), what="all groups")
    ahead[0] = 100.0
    b = instances.begin("b")
    until(lambda: set(GROUPS) == set(b.groups_owned()), what=lambda: f"{instances.said}")
    assert {} == a.groups_owned()
    [line] = [line for line in instances.said if "other instances take" in line]
    assert line.startswith("a: this process, or its host, was stopped for 10"), "no fault of ours"
    a.record_heartbeat()
    until(lambda: [1, 2] == counts(a, b), what="it takes part again")


# -- processes -------------------------------------------------------------------------------

class Commanded:
    """What commander.py's processes sent: [(when, name, group)], by this machine's clock."""

    def __init__(self, directory, endpoints, prefix):
        self._directory, self._endpoints, self._prefix = directory, endpoints, prefix
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._socket.bind(("127.0.0.1", 0))
        self.seen, self.fences, self.processes = [], {}, {}
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        while True:
            message = self._socket.recv(500).decode()
            if not message:
                return
            sent_at, name, fence, group = message.split(" ", 3)
            self.seen.append((float(sent_at), name, group))
            self.fences.setdefault(group, []).append(int(fence))

    def begin(self, name):
        with open(self._directory / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, REPOSITORY / "tests" / "commander.py", ",".join(self._endpoints),
                 self._prefix, str(LEASE_S), name, str(self._socket.getsockname()[1]),
                 *(f"{group}={count}" for group, count in GROUPS.items())],
                stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})

    def log(self, name):
        return (self._directory / f"{name}.log").read_text()

    def owner(self, group, since):
        """Who has commanded `group` last, since then; None."""
        return next((name for at, name, one in reversed(self.seen)
                     if one == group and at > since), None)

    def owners(self, since):
        """{group: who commands it}, once all are commanded after `since`; {}."""
        found = {group: self.owner(group, since) for group in GROUPS}
        return found if None not in found.values() else {}

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ends:
            ends.sendto(b"", self._socket.getsockname())
        self._thread.join(20)
        self._socket.close()

    def late(self):
        """
        {group: how often it was commanded after a later owner had begun to}: owners follow one
        another as the revisions at which they became it.
        """
        found = {group: sum(after < before for before, after in zip(fences, fences[1:]))
                 for group, fences in self.fences.items()}
        return {group: count for group, count in found.items() if count}


@pytest.fixture
def commanded(etcd_three, tmp_path):
    made = Commanded(tmp_path, etcd_three.endpoints, etcd_three.prefix)
    for name in "abc":
        made.begin(name)
    try:
        until(lambda: {"a", "b", "c"} == set(made.owners(time.monotonic() - 0.5).values()),
              what=lambda: f"one group each: {[made.log(name) for name in 'abc']}")
        yield made
    finally:
        made.close()


def test_the_groups_of_one_that_is_killed_are_taken_over(commanded):
    victim = commanded.processes["b"]
    [group] = [one for one, name in commanded.owners(time.monotonic() - 1).items() if name == "b"]
    victim.kill()
    victim.wait()
    killed = time.monotonic()
    until(lambda: commanded.owner(group, killed) in ("a", "c"), what="its group is commanded")
    assert {} == commanded.late()


def test_one_that_was_stopped_commands_nothing_after_it_lost_its_groups(commanded):
    stopped = commanded.processes["b"]
    stopped.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    until(lambda: {"a", "c"} == set(commanded.owners(began + 0.2).values()), what="the others")
    assert {} == commanded.late()
    went_on = time.monotonic()
    stopped.send_signal(signal.SIGCONT)
    until(lambda: "lease in etcd expired" in commanded.log("b"), what="it is noticed")
    until(lambda: "b" in commanded.owners(went_on).values(), what="it has its share again")
    assert {} == commanded.late()


def test_one_member_of_etcd_cut_off_changes_nothing(commanded, etcd_three):
    before = commanded.owners(time.monotonic() - 5)
    etcd_three.leader().cut_off()
    cut = time.monotonic()
    until(lambda: time.monotonic() > cut + LEASE_S + 2, what="a lease")
    since = time.monotonic()
    until(lambda: before == commanded.owners(since), what="all are commanded, as before")
    assert {} == commanded.late()


def test_without_quorum_nothing_is_commanded_and_with_it_all_goes_on(commanded, etcd_three):
    lost = [etcd_three.leader(), etcd_three.follower()]
    for member in lost:
        member.kill()
    killed = time.monotonic()
    until(lambda: all("left as they are" in commanded.log(name) for name in "abc"),
          what="all say so")
    until(lambda: time.monotonic() > killed + LEASE_S + 0.5, what="a lease")
    assert [] == [one for one in commanded.seen if one[0] > killed + LEASE_S]
    etcd_three.make_whole()
    since = time.monotonic()
    until(lambda: commanded.owners(since), what=lambda: "all are commanded again: " + "\n".join(
        commanded.log(name) for name in "abc"))
    assert {} == commanded.late()
    until(lambda: all("answers again" in commanded.log(name) for name in "abc"),
          what="all say so")


def test_etcd_that_is_not_there_is_one_line_not_a_flood(instances):
    away = Instances(["http://127.0.0.1:9"], "orion")
    one = away.begin("a")
    until(lambda: one.etcd_error, what="it is away")
    assert {} == one.groups_owned() and not one.may_command("l2/top")
    away.end()
    assert 1 == len([line for line in away.said if "left as they are" in line]), away.said
