"""Descriptions in a real etcd: valid at one revision, whole or not at all, with a history."""
import json
import threading

import pytest

from iostats.etcd.client import Etcd, OutcomeUnknown, Stop, make_put
from iostats_ldms import published
from iostats_ldms.description.model import AgentGroup
from iostats_ldms.published import DescriptionUnavailable

pytestmark = pytest.mark.etcd
OSS = AgentGroup("oss", ("oss1", "oss2"), (("harvest.interval", "23"),))


@pytest.fixture
def one(etcd):
    with Etcd(etcd.endpoints, prefix=etcd.prefix) as made:
        yield made


def loaded(etcd, text, agents=(), **how):
    return published.load(etcd, text, agents, published.read_current_revision(etcd),
                          by="alice@mgmt1",
                             **how)


def test_a_description_is_read_as_it_was_written(one):
    assert published.read_current_description(one) is None
    made = loaded(one, "daemons: [é, 日本]\n", [OSS], note="first", now=1_795_000_023.0)
    now, text = published.read_current_description(one)
    assert "daemons: [é, 日本]\n" == text
    assert made == now
    assert (1, "alice@mgmt1", 1_795_000_023.0, "first") == (now.number, now.by, now.at, now.note)
    assert {"revision": 1, "groups": [{"name": "oss", "hosts": ["oss1", "oss2"], "settings": {
        "harvest.interval": "23"}}]} == json.loads(one.get(one.key("agents")).value)


def test_a_long_description_is_in_parts(one):
    """1.7 MB when compressed: two requests, since etcd takes 1.5 MB."""
    import random
    text = random.Random(23).randbytes(1_720_000).hex()
    made = loaded(one, text)
    assert 2 == made.parts
    assert text == published.read_current_description(one)[1]


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
    shown = published.read_current_revision(one)
    published.load(one, "first", (), shown, by="alice@mgmt1")
    with pytest.raises(DescriptionUnavailable) as raised:
        published.load(one, "second", (), shown, by="bob@mgmt2")
    assert ("etcd: alice@mgmt1 loaded description 1 in between; nothing was loaded; check the "
            "differences again with --dry-run") == str(raised.value)
    assert "first" == published.read_current_description(one)[1]
    assert 1 == len(one.keys(one.below("descriptions"))), "nothing of the second is left"


def test_many_who_load_at_once_are_one_after_the_other(one):
    """13 threads: of those that begin from the same one, one comes through."""
    results = []

    def load(name):
        try:
            results.append((published.load(one, name, (), None, by=name), name))
        except DescriptionUnavailable:
            results.append((None, name))
    threads = [threading.Thread(target=load, args=(f"text of {number}",)) for number in range(13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [(_, winner)] = [result for result in results if result[0]]
    assert winner == published.read_current_description(one)[1]


def test_the_last_20_are_kept_with_their_parts(one):
    for number in range(1, 24):
        loaded(one, f"text {number}", note=f"note {number}")
    assert list(range(23, 3, -1)) == [kept.number for kept in published.read_history(one)]
    assert 20 == len(one.keys(one.below("descriptions")))
    fourth = published.read_revision(one, 4)
    assert ("text 4", "note 4") == (published.read_text(one, fourth), fourth.note)
    with pytest.raises(DescriptionUnavailable,
                       match=r"^etcd: no description 3; there are: 4 5 6 .* 22 23$"):
        published.read_revision(one, 3)


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
    assert [1] == [kept.number for kept in published.read_history(one)]
    assert made == published.read_current_revision(one)


def test_parts_of_a_load_that_was_killed_are_removed_by_the_next(one):
    one.put(one.key("descriptions", "000001-0123456789ab", "0000"), b"half")
    loaded(one, "text")
    assert ["000001-982d9e3eb996"] == [key.split("/")[3] for key in
                                       one.keys(one.below("descriptions"))]


@pytest.mark.parametrize("value, expected", [
    (b"nonsense", "expected a value written by `iostats ldms load`, got b'nonsense'"),
    (b'{"revision": "1"}', "expected a value written by `iostats ldms load`, got"),
    (b'{"revision":1,"parts":1,"sha256":"a","by":"b","time":NaN,"note":""}', "expected a value"),
    (b'{"revision":1,"parts":99999999,"sha256":"a","by":"b","time":1,"note":""}',
     "expected a value"),
    (b"[" * 9999, "expected a value"),
    (b'{"revision":1,"parts":1,"sha256":"aa","by":"b","time":1,"note":""}',
     "expected a part of description 1, got nothing; load the description again"),
])
def test_what_others_put_there_is_told_in_one_line(one, value, expected):
    one.put(one.key("current"), value)
    with pytest.raises(DescriptionUnavailable, match=expected) as raised:
        published.read_current_description(one)
    assert one.key("current") in str(raised.value) or "/descriptions/" in str(raised.value)


def test_a_damaged_text_is_not_taken(one):
    made = loaded(one, "text")
    one.put(one.key("descriptions", made.name, "0000"), b"other")
    with pytest.raises(DescriptionUnavailable,
                       match="expected the text of description 1, got one with anot"):
        published.read_current_description(one)


def test_a_prefix_is_no_other_clusters(etcd):
    with Etcd(etcd.endpoints, prefix=etcd.prefix) as orion, \
            Etcd(etcd.endpoints, prefix=f"{etcd.prefix}2") as other:
        loaded(orion, "of orion")
        loaded(other, "of another")
        orion.delete(orion.below())
        assert published.read_current_revision(orion) is None
        assert "of another" == published.read_current_description(other)[1]


def test_without_quorum_nothing_is_loaded(etcd_three):
    with Etcd(etcd_three.endpoints, prefix=etcd_three.prefix, timeout_s=0.5) as three:
        loaded(three, "text 1")
        for member in etcd_three.members[:2]:
            member.kill()
        with pytest.raises(published.EtcdAway) as raised:
            loaded(three, "text 2")
        assert not isinstance(raised.value, OutcomeUnknown)
        assert all(member.url in str(raised.value) for member in etcd_three.members)
        etcd_three.make_whole()
        assert "text 1" == published.read_current_description(three)[1]
        assert three.txn([], [make_put(three.key("x"), b"1")])[0]
        loaded(three, "text 2")
        assert (2, "text 2") == (published.read_current_revision(three).number,
                                 published.read_current_description(three)[1])
