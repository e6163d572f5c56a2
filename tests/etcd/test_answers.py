"""What is asked of etcd's gateway, and what is understood of its answers: all comes off a wire."""
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import ConfigError
from iostats.etcd import answers
from iostats.etcd.answers import KeyValue, NotEtcds
from iostats.etcd.members import parse_url


@pytest.mark.parametrize("name, expected", [
    ("/orion/agents", {"key": "L29yaW9uL2FnZW50cw=="}),
    ("/orion/", {"key": "L29yaW9uLw==", "range_end": "L29yaW9uMA=="}),      # up to /orion0
    ("/é/", {"key": "L8OpLw==", "range_end": "L8OpMA=="}),
])
def test_a_key_or_all_below_it(name, expected):
    assert expected == answers.make_key_range(name)


@given(st.text(max_size=9), st.text(min_size=1, max_size=9))
def test_what_is_below_a_prefix_is_in_its_range_and_no_more(prefix, other):
    """Keys are compared as bytes."""
    from base64 import b64decode

    def as_bytes(text):
        return text.encode("utf-8", "surrogatepass")
    try:
        found = answers.make_key_range(f"/{prefix}/")
        key = as_bytes(f"/{prefix}/{other}")
        beside = as_bytes(f"/{prefix}{other}") if other[0] != "/" else b""
    except UnicodeEncodeError:
        return
    begin, end = b64decode(found["key"]), b64decode(found["range_end"])
    assert begin <= key < end
    assert not begin <= beside < end


def test_a_transaction():
    assert {
        "compare": [{"key": "YQ==", "result": "EQUAL", "target": "CREATE", "create_revision": "23"},
                    {"key": "Yg==", "result": "EQUAL", "target": "MOD", "mod_revision": "0"},
                    {"key": "Yw==", "result": "EQUAL", "target": "VALUE", "value": "Mzc="}],
        "success": [{"request_put": {"key": "YQ==", "value": "Mzc=", "lease": "41"}},
                    {"request_delete_range": {"key": "YS8=", "range_end": "YTA="}}],
        "failure": [{"request_range": {"key": "YQ=="}}],
    } == answers.make_txn_request(
        [answers.compare_created("a", 23), answers.compare_modified("b", 0),
         answers.value_is("c", b"37")],
        [answers.make_put("a", b"37", 41), answers.make_delete("a/")], [answers.make_get("a")])


def test_a_key_that_is_put_is_one_key():
    with pytest.raises(ValueError, match="a key that is put cannot end in '/', got '/orion/'"):
        answers.put_request("/orion/", b"")


def test_what_is_left_out_is_zero_or_empty():
    """As etcd 3.4 answers a range: an empty value, no lease."""
    answer = answers.parse_answer(b'{"header":{"revision":"5"},"kvs":[{"key":"YQ==",'
                                  b'"create_revision":"2","mod_revision":"3","version":"2"}],"count":"1"}')
    assert [KeyValue("a", b"", 2, 3, 0)] == answers.parse_key_values(answer)
    assert 5 == answers.parse_revision(answer)
    assert [] == answers.parse_key_values(answers.parse_answer(b'{"header":{"revision":"5"}}'))


def test_changes_of_a_watch():
    """A put has no type, since PUT is 0."""
    result = json.loads('{"header":{"revision":"9"},"events":[{"kv":{"key":"YQ==","value":"MjM=",'
                        '"create_revision":"2","mod_revision":"9"}},{"type":"DELETE","kv":{"key":'
                        '"Yg==","mod_revision":"9"}}]}')
    assert [("a", b"23", 9), ("b", None, 9)] == answers.parse_changes(result)


@pytest.mark.parametrize("text, expected", [
    ('{"error":"etcdserver: no","message":"etcdserver: no","code":14}', (14, "etcdserver: no")),
    ('{"error":{"grpc_code":14,"http_code":503,"message":"no leader"}}', (14, "no leader")),
    ('{"error":"only text"}', (0, "only text")),
])
def test_errors_have_two_forms(text, expected):
    """Of a request, and in a stream."""
    assert expected == answers.parse_error(answers.parse_answer(text.encode()))


values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                          st.sampled_from(["header", "revision", "kvs", "key", "value", "events",
                                           "kv", "lease", "error", "grpc_code", "message", "type",
                                           "response_range", "response_delete_range"]),
                          inner, max_size=4), max_leaves=12)


@given(values)
def test_any_json_is_understood_or_is_not_etcds(value):
    """Never another exception: what it says is told of that member alone."""
    readers = (answers.parse_revision, answers.parse_key_values, answers.parse_changes,
               answers.parse_error,
               answers.parse_operation_answer)
    try:
        answer = answers.parse_answer(json.dumps(value).encode())
    except NotEtcds:
        assert not isinstance(value, dict)
        return
    for reader in readers:
        try:
            reader(answer)
        except NotEtcds as error:
            assert len(str(error)) < 200


@given(st.binary(max_size=40))
def test_any_bytes_are_an_object_or_are_not_etcds(data):
    try:
        assert isinstance(answers.parse_answer(data), dict)
    except NotEtcds:
        pass


def test_json_that_is_too_deep_is_not_etcds():
    with pytest.raises(NotEtcds):
        answers.parse_answer(b"[" * 100_000)


@pytest.mark.parametrize("text, expected", [
    ("http://mgmt1:2379", "http://mgmt1:2379"), ("mgmt1", "http://mgmt1:2379"),
    ("mgmt1:23", "http://mgmt1:23"), ("https://mgmt1/", "https://mgmt1:2379"),
    ("http://[fe80::1]:37", "http://[fe80::1]:37"),
])
def test_a_url(text, expected):
    assert expected == parse_url(text).text


@given(st.text(max_size=30))
def test_any_text_is_a_url_or_one_line(text):
    try:
        assert 0 < parse_url(text).port < 65536
    except ConfigError as error:
        assert str(error).startswith("etcd: expected a URL such as http://mgmt1:2379, got ")
