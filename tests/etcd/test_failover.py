"""What the client does where members are killed, hang, are cut off, or want a password."""
import threading

import pytest
from etcd_desk import EtcdCluster, certificates
from processes import Listener, free_port

from iostats.etcd.client import (
    Etcd,
    EtcdAway,
    EtcdRefused,
    OutcomeUnknown,
    Stop,
    compare_absent,
    make_put,
)

pytestmark = pytest.mark.etcd


@pytest.fixture
def three(etcd_three):
    """A client of three members, and they; what it said is in `said`."""
    said = []
    with Etcd(etcd_three.endpoints, prefix=etcd_three.prefix, emit=said.append) as made:
        made.said = said
        yield made, etcd_three


def first(etcd, cluster):
    url = next(etcd.members.sort_by_answer())
    return next(member for member in cluster.members if member.url == url.text)


@pytest.mark.parametrize("how", ["kill", "hang", "cut_off"])
@pytest.mark.parametrize("which", ["leader", "follower"])
def test_a_request_is_answered_by_the_next_member(three, which, how):
    """And it is told, in a line."""
    etcd, cluster = three
    away = getattr(cluster, which)()
    etcd.members._first = cluster.endpoints.index(away.url)
    getattr(away, how)()
    etcd.put(etcd.key("a"), b"23")
    assert b"23" == etcd.get(etcd.key("a")).value
    assert etcd.said[0].startswith(f"etcd: {away.url}: ")
    assert all(line.endswith(" from now on") for line in etcd.said)


def test_a_lease_outlives_the_member_that_gave_it(three):
    etcd, cluster = three
    lease = etcd.grant(30)
    etcd.put(etcd.key("a"), b"23", lease)
    cluster.leader().kill()
    assert 30 == etcd.keep_alive(lease)
    assert lease == etcd.get(etcd.key("a")).lease


def test_a_transaction_whose_answer_is_lost_is_not_asked_twice(three):
    """The member hangs with it: what was asked may be done when it goes on."""
    etcd, cluster = three
    etcd.get(etcd.key("a"))
    member = first(etcd, cluster)
    member.hang()
    with pytest.raises(OutcomeUnknown) as raised:
        etcd.txn([compare_absent(etcd.key("a"))], [make_put(etcd.key("a"), b"23")])
    assert (f"etcd: {member.url}: no answer within 2 s; what was asked may have been done"
            ) == str(raised.value)


def test_a_transaction_that_was_not_sent_is_asked_of_the_next(three):
    """The member's port is closed, so nothing can have been done."""
    etcd, cluster = three
    away = cluster.follower()
    etcd.members._first = cluster.endpoints.index(away.url)
    away.kill()
    assert etcd.txn([compare_absent(etcd.key("a"))], [make_put(etcd.key("a"), b"23")])[0]


def test_counting_up_under_failures_loses_and_doubles_nothing(three):
    """
    Two threads count one key up by compare and put, and read it again where the outcome is not
    known; members are killed and hang meanwhile.
    """
    etcd, cluster = three
    etcd.put(etcd.key("n"), b"")
    wrong = []

    def count(name):
        from iostats.etcd.client import compare_modified
        done = 0
        while done < 20:
            try:
                found = etcd.get(etcd.key("n"))
                mine = b"%s%d " % (name, done)
                if mine in found.value:                     # of a try whose outcome was not known
                    done += 1
                    continue
                etcd.txn([compare_modified(etcd.key("n"), found.mod_revision)],
                         [make_put(etcd.key("n"), found.value + mine)])
            except EtcdAway:
                pass
            except Exception as error:
                wrong.append(error)
                return
    threads = [threading.Thread(target=count, args=(name,)) for name in (b"a", b"b")]
    for thread in threads:
        thread.start()
    cluster.leader().kill()
    cluster.make_whole()
    cluster.leader().hang()
    cluster.follower()
    cluster.make_whole()
    for thread in threads:
        thread.join()
    assert [] == wrong
    assert sorted(b"%s%d" % (name, number) for name in (b"a", b"b") for number in range(20)
                  ) == sorted(etcd.get(etcd.key("n")).value.split())


def test_no_quorum_is_told_with_each_member(three):
    etcd, cluster = three
    dead = [cluster.members[0], cluster.members[1]]
    for member in dead:
        member.kill()
    for _ in range(2):
        with pytest.raises(EtcdAway) as raised:
            etcd.get(etcd.key("a"))
    text = str(raised.value)
    assert 1 == len(text.splitlines())
    assert all(f"{member.url}: connection refused" in text for member in dead)
    assert f"{cluster.members[2].url}: " in text and "no leader" in text


# -- TLS and passwords -------------------------------------------------------------------------

@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """An EtcdCluster with TLS that wants a client's certificate and a password."""
    with EtcdCluster(tmp_path_factory.mktemp("guarded"), tls=True, client_cert=True,
                     password="23 Pässe", options=["--auth-token-ttl", "2"]) as cluster:
        yield cluster


def guarded_client(cluster, **how):
    return Etcd(cluster.endpoints, **{
        "user": "root", "password": "23 Pässe", "ca": cluster.ca, "cert": cluster.cert,
        "key": cluster.key, "prefix": "orion", **how})


def test_tls_with_a_password(guarded):
    with guarded_client(guarded) as etcd:
        etcd.put(etcd.key("a"), b"23")
        assert b"23" == etcd.get(etcd.key("a")).value


@pytest.mark.parametrize("how, error, expected", [
    ({"password": "wrong"}, EtcdRefused,
     "etcd: authentication failed, invalid user ID or password; the user or the password is wrong: "
     "[etcd] user and password_file"),
    ({"user": "", "password": ""}, EtcdRefused,
     "etcd: permission denied; it asks for a user: [etcd] user and password_file in site.cfg"),
    ({"ca": ""}, EtcdRefused, "etcd: URL: its certificate is not accepted: unable to get local "
                              "issuer certificate ([etcd] ca)"),
    ({"cert": "", "key": ""}, EtcdRefused, "etcd: URL: it does not accept our certificate, or "
                                           "wants one ([etcd] cert, key)"),
])
def test_who_may_not_is_told_why_in_one_line(guarded, how, error, expected):
    with guarded_client(guarded, **how) as etcd, pytest.raises(error) as raised:
        etcd.get(etcd.key("a"))
    assert expected == str(raised.value).replace(guarded.endpoints[0], "URL")
    assert "23 P" not in str(raised.value)


def test_tls_where_there_is_none_and_none_where_there_is(guarded, etcd):
    with Etcd([guarded.endpoints[0].replace("https", "http")], timeout_s=0.3) as one, \
            pytest.raises(EtcdAway, match=r": it closed the connection$"):
        one.get("a")
    with Etcd([etcd.endpoints[0].replace("http", "https")]) as one, \
            pytest.raises(EtcdAway, match=r": TLS: "):
        one.get("a")
    with Listener(free_port(), b"HTTP/1.1 400 Bad Request\r\n\r\n") as plain, \
            Etcd([f"https://127.0.0.1:{plain.port}"]) as one, \
            pytest.raises(EtcdRefused, match=r": it does not speak TLS; write http$"):
        one.get("a")


def test_a_client_with_a_common_name(guarded):
    """The gateway cannot tell etcd who it is, and refuses it where users have passwords."""
    _, cert, key = certificates(guarded.directory / "cn", "/CN=agent", by=guarded.directory)
    with guarded_client(guarded, cert=cert, key=key) as etcd, pytest.raises(EtcdRefused) as raised:
        etcd.get("a")
    assert ("etcd: where users have passwords it takes no client's certificate with a common name "
            "(CN): [etcd] cert") == str(raised.value)


def test_a_certificate_of_another_host(guarded):
    """It is of 127.0.0.1."""
    port = guarded.endpoints[0].rpartition(":")[2]
    with Etcd([f"https://localhost:{port}"], ca=guarded.ca) as etcd, \
            pytest.raises(EtcdRefused, match=r"its certificate is not accepted: .*localhost"):
        etcd.get("a")


def test_a_token_that_is_over_is_asked_for_again(guarded):
    """--auth-token-ttl is 2 s here; and a member that was restarted knows no token at all."""
    with guarded_client(guarded) as etcd:
        etcd.put(etcd.key("a"), b"23")
        etcd.members._token = etcd.members._token[::-1]
        assert b"23" == etcd.get(etcd.key("a")).value
        guarded.members[0].kill()
        guarded.make_whole()
        etcd.put(etcd.key("a"), b"37")
        assert b"37" == etcd.get(etcd.key("a")).value


def test_a_user_who_may_read_alone(guarded):
    """And follows with a token that the member does not know: it gets a new one."""
    root = ["--user", "root:23 Pässe"]
    guarded.ctl(*root, "role", "add", "reader")
    guarded.ctl(*root, "role", "grant-permission", "reader", "--prefix=true", "read", "/orion/")
    guarded.ctl(*root, "user", "add", "agent:41")
    guarded.ctl(*root, "user", "grant-role", "agent", "reader")
    with guarded_client(guarded) as etcd:
        etcd.put(etcd.key("a"), b"23")
    with guarded_client(guarded, user="agent", password="41") as etcd:
        assert b"23" == etcd.get(etcd.key("a")).value
        with pytest.raises(EtcdRefused) as raised:
            etcd.put(etcd.key("a"), b"37")
        assert ("etcd: permission denied; the user may not do this: `etcdctl role "
                "grant-permission`") == str(raised.value)
        stop = Stop()
        news = etcd.follow(etcd.below(), stop)
        etcd.members._token = "unknown.1"       # for a later index etcd would wait
        assert b"23" == next(news).values["/orion/a"]
        stop.set()
        assert [] == list(news)
        denied = next(etcd.follow("/orion2/", Stop()))
        assert "permission denied" in denied.why


def test_a_plain_etcd_that_wants_a_password(tmp_path):
    """Neither TLS nor a user in site.cfg."""
    with EtcdCluster(tmp_path, password="23") as cluster:
        with Etcd(cluster.endpoints) as etcd, pytest.raises(EtcdRefused) as raised:
            etcd.get("a")
        assert ("etcd: user name is empty; it asks for a user: [etcd] user and password_file in "
                "site.cfg") == str(raised.value)


def test_a_password_where_etcd_wants_none(etcd):
    with Etcd(etcd.endpoints, user="root", password="23", prefix=etcd.prefix) as made:
        made.put(made.key("a"), b"23")
        assert b"23" == made.get(made.key("a")).value


def test_members_that_are_not_there():
    with Etcd([f"http://127.0.0.1:{free_port()}", "http://no-such-host.invalid:2379"]) as etcd, \
            pytest.raises(EtcdAway) as raised:
        etcd.get("a")
    assert "connection refused; http://no-such-host.invalid:2379: no such host" in str(raised.value)
