"""Descriptions in a real etcd: valid at one revision, whole or not at all, with a history."""
import json
import threading

import pytest

from iostats.etcd.client import Etcd, OutcomeUnknown, Stop, putting
from iostats.ldms.description.normal import AgentGroup
from iostats.ldms.published import descriptions
from iostats.ldms.published.descriptions import NotPublished

pytestmark = pytest.mark.etcd
OSS = AgentGroup("oss", ("oss1", "oss2"), (("harvest.every", "23"),))


@pytest.fixture
def one(etcd):
    with Etcd(etcd.endpoints, prefix=etcd.prefix) as made:
        yield made


def loaded(etcd, text, agents=(), **how):
    return descriptions.load(etcd, text, agents, descriptions.current(etcd), by="alice@mgmt1",
                             **how)


def test_a_description_is_read_as_it_was_written(one):
    assert descriptions.read_current(one) is None
    made = loaded(one, "daemons: [é, 日本]\n", [OSS], note="first", now=1_795_000_023.0)
    now, text = descriptions.read_current(one)
    assert "daemons: [é, 日本]\n" == text
    assert made == now
    assert (1, "alice@mgmt1", 1_795_000_023.0, "first") == (now.number, now.by, now.at, now.note)
    assert {"revision": 1, "groups": [{"name": "oss", "hosts": ["oss1", "oss2"], "settings": {
        "harvest.every": "23"}}]} == json.loads(one.get(one.key("agents")).value)


def test_a_long_description_is_in_parts(one):
    """1.7 MB when compressed: two requests, since etcd takes 1.5 MB."""
    import random
    text = random.Random(23).randbytes(1_720_000).hex()
    made = loaded(one, text)
    assert 2 == made.parts
    assert text == descriptions.read_current(one)[1]


def test_agents_and_the_description_change_at_one_revision(one):
    loaded(one, "a", [OSS])
    stop, seen = Stop(), []
    for news in one.follow(one.below(), stop):
        if not seen:
            loaded(one, "b")
        seen.append(news)
        if len(seen) > 1 and any(key == one.key("current") for key, _, _ in news.changes):
            break
    assert {one.key("current"), one.key("agents"), one.key("history", "000002")} == {
        key for key, _, _ in seen[-1].changes}
    assert {seen[-1].revision} == {at for _, _, at in seen[-1].changes}


def test_who_loads_what_was_not_shown_is_refused(one):
    """Two look at the differences, one loads first: the other's would undo it unseen."""
    shown = descriptions.current(one)
    descriptions.load(one, "first", (), shown, by="alice@mgmt1")
    with pytest.raises(NotPublished) as raised:
        descriptions.load(one, "second", (), shown, by="bob@mgmt2")
    assert ("etcd: alice@mgmt1 loaded description 1 meanwhile; nothing was loaded; look at the "
            "differences again, with --dry-run") == str(raised.value)
    assert "first" == descriptions.read_current(one)[1]
    assert 1 == len(one.keys(one.below("descriptions"))), "nothing of the second is left"


def test_many_who_load_at_once_are_one_after_the_other(one):
    """13 threads: of those that begin from the same one, one comes through."""
    results = []

    def load(name):
        try:
            results.append((descriptions.load(one, name, (), None, by=name), name))
        except NotPublished:
            results.append((None, name))
    threads = [threading.Thread(target=load, args=(f"text of {number}",)) for number in range(13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [(_, winner)] = [result for result in results if result[0]]
    assert winner == descriptions.read_current(one)[1]


def test_the_last_20_are_kept_with_their_parts(one):
    for number in range(1, 24):
        loaded(one, f"text {number}", note=f"note {number}")
    assert list(range(23, 3, -1)) == [kept.number for kept in descriptions.history(one)]
    assert 20 == len(one.keys(one.below("descriptions")))
    fourth = descriptions.revision_of(one, 4)
    assert ("text 4", "note 4") == (descriptions.text_of(one, fourth), fourth.note)
    with pytest.raises(NotPublished, match=r"^etcd: no description 3; there are: 4 5 6 .* 22 23$"):
        descriptions.revision_of(one, 3)


def test_an_answer_that_was_lost_loads_once(one, monkeypatch):
    """The transaction is done, its answer is lost, and it is asked again."""
    call, lost = one.members.call, []

    def loses_the_first(path, body, again=True):
        answer = call(path, body, again)
        if path == "kv/txn" and not lost:
            lost.append(answer)
            assert again
            answer = call(path, body, again)
        return answer
    monkeypatch.setattr(one.members, "call", loses_the_first)
    made = loaded(one, "text")
    assert lost and 1 == made.number
    assert [1] == [kept.number for kept in descriptions.history(one)]
    assert made == descriptions.current(one)


def test_parts_of_a_load_that_was_killed_are_removed_by_the_next(one):
    one.put(one.key("descriptions", "000001-0123456789ab", "0000"), b"half")
    loaded(one, "text")
    assert ["000001-982d9e3eb996"] == [key.split("/")[3] for key in
                                       one.keys(one.below("descriptions"))]


@pytest.mark.parametrize("value, expected", [
    (b"nonsense", "expected what `iostats ldms load` puts there, got b'nonsense'"),
    (b'{"revision": "1"}', "expected what `iostats ldms load` puts there, got"),
    (b'{"revision":1,"parts":1,"sha256":"a","by":"b","time":NaN,"note":""}', "expected what"),
    (b'{"revision":1,"parts":99999999,"sha256":"a","by":"b","time":1,"note":""}', "expected what"),
    (b"[" * 9999, "expected what"),
    (b'{"revision":1,"parts":1,"sha256":"aa","by":"b","time":1,"note":""}',
     "expected a part of description 1, got nothing; load the description again"),
])
def test_what_others_put_there_is_told_in_one_line(one, value, expected):
    one.put(one.key("current"), value)
    with pytest.raises(NotPublished, match=expected) as raised:
        descriptions.read_current(one)
    assert one.key("current") in str(raised.value) or "/descriptions/" in str(raised.value)


def test_a_damaged_text_is_not_taken(one):
    made = loaded(one, "text")
    one.put(one.key("descriptions", made.name, "0000"), b"other")
    with pytest.raises(NotPublished, match="expected the text of description 1, got one with anot"):
        descriptions.read_current(one)


def test_a_prefix_is_no_other_clusters(etcd):
    with Etcd(etcd.endpoints, prefix=etcd.prefix) as orion, \
            Etcd(etcd.endpoints, prefix=f"{etcd.prefix}2") as other:
        loaded(orion, "of orion")
        loaded(other, "of another")
        orion.delete(orion.below())
        assert descriptions.current(orion) is None
        assert "of another" == descriptions.read_current(other)[1]


def test_without_quorum_nothing_is_loaded(etcd_three):
    with Etcd(etcd_three.endpoints, prefix=etcd_three.prefix, timeout_s=0.5) as three:
        loaded(three, "text 1")
        for member in etcd_three.members[:2]:
            member.kill()
        with pytest.raises(descriptions.EtcdAway) as raised:
            loaded(three, "text 2")
        assert not isinstance(raised.value, OutcomeUnknown)
        assert all(member.url in str(raised.value) for member in etcd_three.members)
        etcd_three.make_whole()
        assert "text 1" == descriptions.read_current(three)[1]
        assert three.txn([], [putting(three.key("x"), b"1")])[0]
        loaded(three, "text 2")
        assert (2, "text 2") == (descriptions.current(three).number,
                                 descriptions.read_current(three)[1])
