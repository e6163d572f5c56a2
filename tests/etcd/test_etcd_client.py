"""The client against a real etcd: keys, ranges, transactions, leases."""
import threading

import pytest

from iostats.base import config as site
from iostats.base.errors import ConfigError
from iostats.etcd import client
from iostats.etcd.client import (
    Etcd,
    EtcdRefused,
    compare_absent,
    compare_created,
    make_delete,
    make_get,
    make_put,
)

pytestmark = pytest.mark.etcd


@pytest.fixture
def one(etcd):
    with Etcd(etcd.endpoints, prefix=etcd.prefix) as made:
        yield made


def test_a_key_is_what_was_put_last(one):
    key = one.key("current")
    assert one.get(key) is None
    first = one.put(key, b"\x00\xff 23")
    second = one.put(key, b"37")
    assert (key, b"37", first, second, 0) == one.get(key)
    assert first < second
    assert 1 == one.delete(key)
    assert one.get(key) is None


def test_what_is_below_a_prefix_is_no_other_clusters(one):
    """/orion/ never touches /orion2/, nor /orion itself."""
    for key in (one.key(), one.key("a"), f"/{one.prefix}2/a", f"/{one.prefix}/"[:-1] + "0"):
        one.put(key, b"23")
    assert [one.key("a")] == [found.key for found in one.range(one.below())[0]]
    assert 1 == one.delete(one.below())
    assert b"23" == one.get(one.key()).value and b"23" == one.get(f"/{one.prefix}2/a").value


def test_a_group_with_a_slash_is_one_part_of_a_key(one):
    assert f"/{one.prefix}/owners/a%2Fb%25%5B1-3%5D" == one.key("owners", "a/b%[1-3]")


def test_a_range_of_many_pages_is_of_one_revision(one, monkeypatch):
    """2,300 keys in pages of 1,000, while another writes between the pages."""
    for start in range(0, 2300, 100):
        one.txn([], [make_put(one.key(f"{number:05}"), b"23") for number in
                     range(start, start + 100)])
    ask, asked = one.members.call, []

    def call(path, body, again=True):
        asked.append(body)
        answer = ask(path, body, again)
        ask("kv/put", {**putting_body(one.key("02299")), "value": "MzcK"})
        return answer
    monkeypatch.setattr(one.members, "call", call)
    found, revision = one.range(one.below())
    assert 3 == len(asked)
    assert 2300 == len({key_value.key for key_value in found}) == len(found)
    assert b"23" == found[-1].value and max(kv.mod_revision for kv in found) <= revision


def putting_body(key):
    from iostats.etcd.answers import put_request
    return put_request(key, b"")


def test_a_transaction_is_done_whole_or_not_at_all(one):
    mine, other = one.key("owners", "a"), one.key("owners", "b")
    won, gave, revision = one.txn([compare_absent(mine)], [make_put(mine, b"23"), make_get(mine)])
    assert won and [None, [(mine, b"23", revision, revision, 0)]] == gave
    won, gave, _ = one.txn([compare_absent(mine)], [make_put(mine, b"37"), make_put(other, b"37")],
                           [make_get(mine)])
    assert (False, b"23") == (won, gave[0][0].value)
    assert one.get(other) is None
    won, gave, _ = one.txn([compare_created(mine, revision)], [make_delete(mine)])
    assert (True, [1]) == (won, gave)
    one.put(mine, b"41")
    assert not one.txn([compare_created(mine, revision)], [make_delete(mine)])[0], (
        "it is another one")


def test_a_lease_takes_its_keys_with_it(one):
    lease = one.grant(23)
    one.put(one.key("instances", "a"), b"1", lease)
    assert lease == one.get(one.key("instances", "a")).lease
    assert 23 == one.keep_alive(lease)
    one.revoke(lease)
    one.revoke(lease)
    assert one.get(one.key("instances", "a")) is None
    assert 0 == one.keep_alive(lease)
    with pytest.raises(EtcdRefused, match="requested lease not found"):
        one.put(one.key("instances", "a"), b"1", lease)


def test_threads_use_one_client(one):
    """23 threads, each with its own counter: no answer is another's."""
    wrong = []

    def count(name):
        for number in range(20):
            one.put(one.key(name), b"%d" % number)
            if one.get(one.key(name)).value != b"%d" % number:
                wrong.append((name, number))
    threads = [threading.Thread(target=count, args=(f"t{number}",)) for number in range(23)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == wrong


def test_what_is_too_large_is_refused_with_its_limit(one):
    with pytest.raises(EtcdRefused, match="request is too large; its limit is --max-request-bytes"):
        one.put(one.key("big"), bytes(1_700_000))


@pytest.mark.parametrize("settings, options, expected", [
    ({}, {}, "no etcd is named; expected URLs such as http://mgmt1:2379 in [etcd] endpoints of "
             "site.cfg, or with --etcd"),
    ({}, {"endpoints": "ftp://a", "prefix": "orion"},
     "etcd: expected a URL such as http://mgmt1:2379, got 'ftp://a'"),
    ({}, {"endpoints": "http://a:port", "prefix": "orion"},
     "etcd: expected a URL such as http://mgmt1:2379, got 'http://a:port'"),
    ({}, {"endpoints": "http://root:pw@a", "prefix": "orion"},
     "etcd: expected a URL such as http://mgmt1:2379, got 'a' behind a user"),
    ({}, {"endpoints": "a", "prefix": ""},
     "[etcd] prefix: expected the name of a cluster of up to 100 characters without '/', such as "
     "orion, got ''; set it in site.cfg, or with --prefix"),
    ({}, {"endpoints": "a", "prefix": "or/ion"},
     "[etcd] prefix: expected the name of a cluster of up to 100 characters without '/', such as "
     "orion, got 'or/ion'; set it in site.cfg, or with --prefix"),
    ({"user": "root"}, {"endpoints": "a", "prefix": "orion"},
     "[etcd] user and [etcd] password_file go together, got user alone"),
    ({"cert": "/c"}, {"endpoints": "https://a", "prefix": "orion"},
     "[etcd] cert and [etcd] key go together, got cert alone"),
    ({"ca": "/no/ca.pem"}, {"endpoints": "https://a", "prefix": "orion"},
     "/no/ca.pem: cannot be read: No such file or directory"),
    ({"user": "root", "password_file": "/no/word"}, {"endpoints": "a", "prefix": "orion"},
     "/no/word: cannot be read: No such file or directory"),
])
def test_a_mistake_in_site_cfg_is_one_line(tmp_path, settings, options, expected):
    (tmp_path / "site.cfg").write_text("[etcd]\n" + "".join(
        f"{key} = {value}\n" for key, value in settings.items()))
    with pytest.raises(ConfigError) as raised:
        client.from_config(site.load(str(tmp_path / "site.cfg"), {}), **options)
    assert expected == str(raised.value)


def test_endpoints_and_prefix_of_site_cfg(tmp_path):
    (tmp_path / "site.cfg").write_text("[etcd]\nendpoints = http://mgmt1 https://[::1]:2380\n"
                                       "prefix = /orion/\n")
    made = client.from_config(site.load(str(tmp_path / "site.cfg"), {}))
    assert ["http://mgmt1:2379", "https://[::1]:2380"] == [url.text for url in made.members.urls]
    assert "/orion/agents" == made.key("agents")


@pytest.mark.parametrize("content, mode, expected", [
    (b"23 P\xc3\xa4sse\n", 0o600, None),
    (b"23", 0o640, "expected a file of mode 0600, got mode 0640; others could have read the "
                   "password"),
    (b"\xff", 0o600, "expected a password in UTF-8"),
    (b"\n", 0o600, "expected a password, got an empty file"),
])
def test_the_file_of_a_password(tmp_path, content, mode, expected):
    file = tmp_path / "password"
    file.write_bytes(content)
    file.chmod(mode)
    (tmp_path / "site.cfg").write_text(f"[etcd]\nendpoints = http://mgmt1\nprefix = orion\n"
                                       f"user = root\npassword_file = {file}\n")
    config = site.load(str(tmp_path / "site.cfg"), {})
    if expected is None:
        assert "23 Pässe" == client.from_config(config).members._password
        return
    with pytest.raises(ConfigError) as raised:
        client.from_config(config)
    assert f"{file}: {expected}" == str(raised.value)
