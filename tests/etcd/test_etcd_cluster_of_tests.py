"""The etcd of the tests does what they take for granted: members go, hang, and are cut off."""
import pytest

pytestmark = pytest.mark.etcd
KEY = {"key": "L2E="}


def answers(member, path="kv/range"):
    try:
        return "header" in member.ask(path, KEY, 1)
    except OSError:
        return False


def test_a_member_that_is_cut_off_serves_nothing_that_needs_the_others(etcd_three):
    """The other two go on; once joined again it has what they wrote meanwhile."""
    from processes import until
    alone, other = etcd_three.follower(), etcd_three.leader()
    alone.cut_off()
    until(lambda: not answers(alone))
    other.ask("kv/put", {**KEY, "value": "MjM="})
    local = alone.ask("kv/range", {**KEY, "serializable": True})
    assert "MjM=" not in str(local)
    alone.join()
    until(lambda: answers(alone))
    assert "MjM=" == alone.ask("kv/range", KEY)["kvs"][0]["value"]


def test_a_leader_that_is_cut_off_is_replaced(etcd_three):
    from processes import until
    first = etcd_three.leader()
    first.cut_off()
    rest = [member for member in etcd_three.members if member is not first]
    until(lambda: any(answers(member) for member in rest))
    assert not answers(first)
