"""Following keys in a real etcd: no change is lost or comes twice, whatever happens to members."""
import contextlib
import queue
import threading

import pytest
from etcd_desk import EtcdCluster
from processes import Listener, until

from iostats.etcd.client import Away, Back, Changes, Etcd, Loaded, Stop, make_delete, make_put

pytestmark = pytest.mark.etcd
WITHIN_S = 60


class Following:
    """A thread that follows; what it told, in its order."""

    def __init__(self, etcd, name, ask_every_s=None):
        self.stop, self.told = Stop(), queue.Queue()
        self._thread = threading.Thread(target=self._run, args=(etcd, name, ask_every_s))
        self._thread.start()

    def _run(self, etcd, name, ask_every_s):
        for news in etcd.follow(name, self.stop, ask_every_s):
            self.told.put(news)

    def next(self):
        return self.told.get(timeout=WITHIN_S)

    def values(self, count):
        """
        The next `count` values; a put whose answer was lost is put again, and seen twice, but no
        revision is.  Away and Back are passed over.
        """
        found, last = {}, 0
        while len(found) < count:
            news = self.next()
            assert not isinstance(news, Loaded), news
            for _, value, revision in news.changes if isinstance(news, Changes) else ():
                assert revision > last, "it was seen before"
                found[value], last = None, revision
        return list(found)

    def close(self):
        self.stop.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()


@pytest.fixture
def follow():
    """follow(etcd, name, ..) -> Following, which is ended with the test."""
    made = []

    def begin(*words):
        made.append(Following(*words))
        return made[-1]
    yield begin
    for one in made:
        one.close()


@pytest.fixture
def one(etcd):
    with Etcd(etcd.endpoints, prefix=etcd.prefix) as made:
        yield made


@pytest.fixture
def three(etcd_three):
    """A client of three members, and they."""
    with Etcd(etcd_three.endpoints, prefix=etcd_three.prefix) as made:
        yield made, etcd_three


def member_of(etcd, cluster):
    """The EtcdMember that is asked first."""
    url = next(etcd.members.sort_by_answer())
    return next(member for member in cluster.members if member.url == url.text)


def test_what_is_there_and_then_what_changes(one, follow):
    """A transaction is seen whole, a deletion and the end of a lease as None; no other's keys."""
    one.put(one.key("a"), b"23")
    one.put(f"/{one.prefix}2/a", b"other")
    following = follow(one, one.below())
    assert {one.key("a"): b"23"} == following.next().values
    lease = one.grant(60)
    _, _, at = one.txn([], [make_put(one.key("a"), b"37"), make_put(one.key("b"), b"41", lease)])
    assert Changes([(one.key("a"), b"37", at), (one.key("b"), b"41", at)], at) == following.next()
    one.put(f"/{one.prefix}2/a", b"other")
    one.revoke(lease)
    [(key, value, _)] = following.next().changes
    assert (one.key("b"), None) == (key, value)
    _, _, at = one.txn([], [make_delete(one.key("a"))])
    assert Changes([(one.key("a"), None, at)], at) == following.next()


def test_one_key_is_followed_without_those_below_it(one, follow):
    following = follow(one, one.key("agents"))
    assert {} == following.next().values
    one.put(one.key("agents", "x"), b"other")
    one.put(one.key("agents2"), b"other")
    one.put(one.key("agents"), b"23")
    assert [(one.key("agents"), b"23")] == [change[:2] for change in following.next().changes]


@pytest.mark.parametrize("tls", [False, True])
def test_its_end_waits_for_nothing(one, tls, tmp_path, follow):
    """Nothing comes for an hour."""
    with contextlib.ExitStack() as opened:
        if tls:
            cluster = opened.enter_context(EtcdCluster(tmp_path, tls=True))
            one = opened.enter_context(Etcd(cluster.endpoints, prefix="orion", ca=cluster.ca))
        following = follow(one, one.below(), 3600.0)
        following.next()
        one.put(one.key("a"), b"23")
        following.next()
        following.close()
        assert following.told.empty()


def test_what_was_ended_before_it_began_tells_nothing(one):
    stop = Stop()
    stop.set()
    assert [] == list(one.follow(one.below(), stop, 3600.0))
    going = one.follow(one.below(), stop := Stop(), 3600.0)
    next(going)
    stop.set()
    assert [] == list(going)


def test_a_killed_member_loses_no_change(three, follow):
    """23 changes, and the member that serves them is killed in the middle."""
    etcd, cluster = three
    following = follow(etcd, etcd.below())
    assert {} == following.next().values
    for number in range(23):
        if number == 11:
            member_of(etcd, cluster).kill()
        etcd.put(etcd.key("a"), b"%d" % number)
    assert [b"%d" % number for number in range(23)] == following.values(23)


def test_a_hanging_member_is_noticed_and_left(three, follow):
    """SIGSTOP: its connection stays, and says nothing."""
    etcd, cluster = three
    following = follow(etcd, etcd.below())
    following.next()
    etcd.put(etcd.key("a"), b"before")
    member_of(etcd, cluster).hang()
    etcd.put(etcd.key("a"), b"after")
    assert [b"before", b"after"] == following.values(2)


def test_a_member_that_is_cut_off_is_left(three, follow):
    """It still answers clients, and hears nothing of what the others decide."""
    etcd, cluster = three
    following = follow(etcd, etcd.below())
    following.next()
    member_of(etcd, cluster).cut_off()
    etcd.put(etcd.key("a"), b"after")
    assert [b"after"] == following.values(1)


def test_without_quorum_it_says_so_and_goes_on_after(three, follow):
    etcd, cluster = three
    following = follow(etcd, etcd.below())
    following.next()
    for member in cluster.members[:2]:
        member.kill()
    away = following.next()
    assert isinstance(away, Away)
    assert 1 == len(away.why.splitlines())
    assert all(member.url in away.why for member in cluster.members)
    for member in cluster.members[:2]:
        member.start()
    assert Back() == following.next()
    until(lambda: _put(etcd, b"after"))
    assert [b"after"] == following.values(1)


def _put(etcd, value):
    try:
        return etcd.txn([], [make_put(etcd.key("a"), value)])[0]
    except Exception:
        return False


def test_what_was_compacted_before_it_was_seen_is_loaded_again(tmp_path, follow):
    """The member is away while 13 changes come and are compacted, by way of another."""
    with EtcdCluster(tmp_path, members=3) as cluster, \
            Etcd(cluster.endpoints[:1], prefix="orion") as etcd, \
            Etcd(cluster.endpoints[1:], prefix="orion") as other:
        following = follow(etcd, etcd.below())
        etcd.put(etcd.key("old"), b"gone")
        assert isinstance(following.next(), Loaded)
        cluster.members[0].kill()
        news = following.next()
        if isinstance(news, Changes):                       # it was seen before the member went
            news = following.next()
        assert isinstance(news, Away)
        other.delete(other.key("old"))
        for number in range(13):
            revision = other.put(other.key("a"), b"%d" % number)
        other.members.call("kv/compaction", {"revision": str(revision), "physical": True})
        cluster.members[0].start()
        assert Back() == following.next()
        assert Loaded({other.key("a"): b"12"}, revision) == following.next()
        other.put(other.key("a"), b"after")
        assert [b"after"] == following.values(1)
        following.close()


def test_an_etcd_that_was_made_anew_is_loaded_again(tmp_path, follow):
    """Its revisions begin at 1: those that were seen say nothing of it."""
    import shutil
    with EtcdCluster(tmp_path) as cluster, Etcd(cluster.endpoints, prefix="orion") as etcd:
        for number in range(23):
            etcd.put(etcd.key("a"), b"%d" % number)
        following = follow(etcd, etcd.below())
        assert {"/orion/a": b"22"} == following.next().values
        [member] = cluster.members
        member.kill()
        shutil.rmtree(member.data)
        assert isinstance(following.next(), Away)
        member.start()
        assert Back() == following.next()
        assert {} == following.next().values
        etcd.put(etcd.key("a"), b"new")
        assert [b"new"] == following.values(1)
        following.close()


@pytest.mark.parametrize("answer", [
    None, b"", b"220 mail ready\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]",
    b"HTTP/1.1 200 OK\r\n\r\n{\"header\": 23}", b"HTTP/1.1 404 Not Found\r\n\r\nnot found"],
    ids=["silent", "closes", "no HTTP", "no object", "no header", "no gateway"])
def test_a_member_that_is_no_etcd_is_passed_by(etcd, follow, answer):
    """What listens there is another program: the real one is asked, and followed."""
    from processes import free_port
    with Listener(free_port(), answer) as listener:
        with Etcd([f"http://127.0.0.1:{listener.port}", *etcd.endpoints], prefix=etcd.prefix,
                  timeout_s=0.3) as made:
            made.put(made.key("a"), b"23")
            following = follow(made, made.below())
            assert {made.key("a"): b"23"} == following.next().values
            made.put(made.key("a"), b"37")
            assert [b"37"] == following.values(1)
            assert listener.met
            following.close()
