"""
JSON-RPC 2.0: every example of the specification's section 7, and bytes that are no request.

The expected answers are copied from https://www.jsonrpc.org/specification; where we say more
("Invalid params: expected ...") the test names what the message begins with.
"""
from __future__ import annotations

import json

import msgspec
import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from iostats.base.errors import WireError
from iostats.wire.jsonrpc import Method, dispatch


class Subtract(msgspec.Struct):
    minuend: int
    subtrahend: int


def no_answer(params, context):
    return "nobody hears this"


METHODS = {
    "subtract": Method(lambda p, context: p.minuend - p.subtrahend, Subtract),
    "sum": Method(lambda numbers, context: sum(numbers), list[int]),
    "get_data": Method(lambda params, context: ["hello", 5], None),
    "update": Method(no_answer, list[int]),
    "notify_hello": Method(no_answer, list[int]),
    "notify_sum": Method(no_answer, list[int]),
}


def answer(text, methods=METHODS):
    """The answer to a request's text as Python values; None when there is none."""
    found = dispatch(text if isinstance(text, bytes) else text.encode(), methods)
    return None if found is None else json.loads(found)


# -- the specification's section 7 -----------------------------------------------------------

@pytest.mark.parametrize("request_text, expected", [
    ('{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}',
     {"jsonrpc": "2.0", "result": 19, "id": 1}),
    ('{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}',
     {"jsonrpc": "2.0", "result": -19, "id": 2}),
    ('{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, '
     '"id": 3}',
     {"jsonrpc": "2.0", "result": 19, "id": 3}),
    ('{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, '
     '"id": 4}',
     {"jsonrpc": "2.0", "result": 19, "id": 4}),
    ('{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', None),
    ('{"jsonrpc": "2.0", "method": "foobar"}', None),
    ('{"jsonrpc": "2.0", "method": "foobar", "id": "1"}',
     {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}),
    ('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]',
     {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": None}),
    ('{"jsonrpc": "2.0", "method": 1, "params": "bar"}',
     {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": None}),
    ("""[
  {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
  {"jsonrpc": "2.0", "method"
]""",
     {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": None}),
    ("[]",
     {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": None}),
    ("[1]",
     [{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": None}]),
    ("[1,2,3]",
     [{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": None},
      {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": None},
      {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": None}]),
    ("""[
        {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
        {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
        {"foo": "boo"},
        {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
        {"jsonrpc": "2.0", "method": "get_data", "id": "9"}
    ]""",
     [{"jsonrpc": "2.0", "result": 7, "id": "1"},
      {"jsonrpc": "2.0", "result": 19, "id": "2"},
      {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": None},
      {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "5"},
      {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}]),
    ("""[
        {"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}
    ]""", None),
], ids=["positional", "positional, swapped", "named", "named, swapped", "notification",
        "notification, method not there", "method not there", "invalid JSON",
        "invalid request object",
        "batch, invalid JSON", "empty array", "invalid batch, not empty", "invalid batch",
        "mixed batch", "batch of notifications"])
def test_the_examples_of_the_specification_get_the_answers_of_the_specification(
        request_text, expected):
    """Section 7, literally."""
    assert expected == answer(request_text)


# -- the error table -------------------------------------------------------------------------

@pytest.mark.parametrize("params", [
    "[42]", "[42, 23, 5]", '["42", 23]', '{"minuend": 42}', "[]", "{}", "[42, 1e999]",
    '{"minuend": 42, "subtrahend": null}',
])
def test_params_that_do_not_fit_are_answered_with_32602_and_with_what_was_expected(params):
    """-32602, "Invalid params", and after a colon what is wrong with them."""
    found = answer('{"jsonrpc": "2.0", "method": "subtract", "params": %s, "id": 37}' % params)
    assert -32602 == found["error"]["code"]
    assert 37 == found["id"]
    assert found["error"]["message"].startswith(
        ("Invalid params: expected ", "Invalid params: minuend: expected an integer",
         "Invalid params: subtrahend: expected an integer",
         "Invalid params: Object missing ", "Invalid params: Number out of range"))


def test_params_for_a_method_without_params_are_answered_with_32602():
    """Empty ones are as good as none."""
    text = '{"jsonrpc": "2.0", "method": "get_data", "params": %s, "id": 41}'
    assert -32602 == answer(text % "[5]")["error"]["code"]
    assert ["hello", 5] == answer(text % "[]")["result"]
    assert ["hello", 5] == answer(text % "{}")["result"]


def test_an_internal_error_is_answered_with_32603_and_logged():
    """The caller learns nothing of our insides; `on_bug` gets the exception."""
    bugs = []
    methods = {"divide": Method(lambda params, context: 23 // 0, None)}
    found = dispatch(b'{"jsonrpc": "2.0", "method": "divide", "id": 5}', methods, None,
                     bugs.append)
    assert {"jsonrpc": "2.0", "error": {"code": -32603, "message": "Internal error"},
            "id": 5} == json.loads(found)
    assert [ZeroDivisionError] == [type(bug) for bug in bugs]


def test_a_result_that_is_not_json_is_a_bug_of_ours():
    """The answer is -32603, never half an answer."""
    bugs = []
    methods = {"odd": Method(lambda params, context: object(), None)}
    found = json.loads(dispatch(b'{"jsonrpc": "2.0", "method": "odd", "id": 5}', methods, None,
                                bugs.append))
    assert -32603 == found["error"]["code"]
    assert 1 == len(bugs)


def test_a_method_says_no_with_a_code_of_its_own():
    """A WireError's code and message reach the caller."""
    def no(params, context):
        raise WireError(-32004, "nid00023 is not among the job's nodes")
    found = answer('{"jsonrpc": "2.0", "method": "no", "id": 5}', {"no": Method(no, None)})
    assert {"code": -32004, "message": "nid00023 is not among the job's nodes"} == found["error"]


def test_the_context_is_given_to_the_method():
    """It is how a method knows its caller."""
    methods = {"who": Method(lambda params, context: context, None)}
    found = dispatch(b'{"jsonrpc": "2.0", "method": "who", "id": 5}', methods, "nid00037")
    assert "nid00037" == json.loads(found)["result"]


# -- what else can stand in a request --------------------------------------------------------

@pytest.mark.parametrize("id_text, id_back", [
    ("null", None), ('"a b"', "a b"), ('""', ""), ("0", 0), ("-5", -5), ("3.5", 3.5),
    ("123456789012345678901234567890", 123456789012345678901234567890),
    ('"\\u0000\\n"', "\0\n"),
])
def test_the_id_comes_back_as_it_was_sent(id_text, id_back):
    """null is an id too, and no notification: it has an answer (section 4)."""
    found = answer('{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": %s}'
                   % id_text)
    assert {"jsonrpc": "2.0", "result": 19, "id": id_back} == found


@pytest.mark.parametrize("text, code", [
    (b"", -32700), (b"   ", -32700), (b"\xff\xfe\x00", -32700), (b"\x00" * 37, -32700),
    (b"\x7fELF\x02\x01\x01", -32700), (b"\x1f\x8b\x08\x00", -32700),
    (b"\xef\xbb\xbf{}", -32700), (b"nul", -32700),
    (b'{"jsonrpc": "2.0", "method": "sum", "id": NaN}', -32700),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": [NaN], "id": 1}', -32700),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": [Infinity], "id": 1}', -32700),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": [1], "id": 1}}', -32700),
    (b'{"jsonrpc": "2.0", "method": "\xff", "id": 1}', -32700),
    (b'{"jsonrpc": "2.0", "method": "\\ud800", "id": 1}', -32700),
    (b"[" * 100_000, -32700),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": ' + b"[" * 100_000 + b"]" * 100_000
     + b', "id": 1}', -32700),
    (b'{"a":' * 100_000, -32700),
    (b"null", -32600), (b"23", -32600), (b'"sum"', -32600), (b"{}", -32600), (b"true", -32600),
    (b'{"jsonrpc": "1.0", "method": "sum", "params": [1], "id": 1}', -32600),
    (b'{"jsonrpc": 2.0, "method": "sum", "params": [1], "id": 1}', -32600),
    (b'{"method": "sum", "params": [1], "id": 1}', -32600),
    (b'{"jsonrpc": "2.0", "params": [1], "id": 1}', -32600),
    (b'{"jsonrpc": "2.0", "method": null, "id": 1}', -32600),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": "1", "id": 1}', -32600),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": 23, "id": 1}', -32600),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": null, "id": 1}', -32600),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": [1], "id": [1]}', -32600),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": [1], "id": {}}', -32600),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": [1], "id": true}', -32600),
    (b'{"jsonrpc": "2.0", "method": "sum", "params": [1], "id": ' + b"9" * 5000 + b"}", -32600),
])
def test_what_is_no_request_is_refused_by_its_code(text, code):
    """-32700 for what is no JSON, -32600 for JSON that is no request; the id is null."""
    found = answer(text)
    assert code == found["error"]["code"]
    assert None is found["id"]


def test_of_a_key_that_stands_twice_the_last_counts():
    """RFC 8259 leaves it open; Python's json does the same, so both sides read one thing."""
    found = answer('{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], '
                   '"params": [60, 23], "id": 1, "id": 2}')
    assert {"jsonrpc": "2.0", "result": 37, "id": 2} == found


@pytest.mark.parametrize("params", [
    '{"minuend": 42, "subtrahend": 23, "minuend": 43}',
    '{"minuend": 42, "subtrahend": 23, "minuend" : 43}',
    '{"minuend": 42, "subtrahend": 23, "minuen\\u0064": 43}',
    '{"minuend": 42, "subtrahend": 23, "more": {"minuend": 1, "a": [{"b": 1, "b": 1}]}}',
    '{"minuend": 42, "subtrahend": 23, "more": "\\":", "minuend": 42}',
    '{"a": ' + "9" * 5000 + ', "minuend": 42, "subtrahend": 23, "minuend" : 43}',
    '{"a":' + "9" * 5000 + ',"minuend":42,"subtrahend":23,"minuend":43}',
    '{"minuend": 42, "subtrahend": 23}, "params": {"minuend": 60, "subtrahend": 23}'])
def test_where_it_matters_a_key_that_stands_twice_is_refused(params):
    """In one line, with its name; what can be read in one way alone is taken."""
    subtract = METHODS["subtract"]
    methods = {"subtract": Method(subtract.function, subtract.params, keys_once=True)}

    def asked(params):
        return answer('{"jsonrpc": "2.0", "method": "subtract", "params": %s, "id": 1}' % params,
                      methods)
    error = asked(params)["error"]
    assert -32602 == error["code"]
    assert error["message"] in {f"Invalid params: expected each key once in an object, got "
                                f"'{name}' twice" for name in ("minuend", "b", "params")}
    for more in ('"more": "\\":"', '"more": {"minuend" : 1}', '"more": "a : b"', '"minuen": 43'):
        assert 19 == asked('{"minuend": 42, "subtrahend": 23, %s}' % more)["result"]


def test_numbers_larger_than_64_bits_are_added_without_loss():
    """A sum of many nodes may be larger than any one node's counter."""
    found = answer('{"jsonrpc": "2.0", "method": "sum", '
                   '"params": [18446744073709551615, 18446744073709551615, 5], "id": 1}')
    assert 36893488147419103235 == found["result"]


def test_a_batch_of_a_thousand_is_answered_and_a_larger_one_is_refused():
    """What one message may make us do has a limit."""
    one = b'{"jsonrpc": "2.0", "method": "sum", "params": [23, 14], "id": 5}'
    found = answer(b"[" + b",".join([one] * 1000) + b"]")
    assert 1000 == len(found)
    assert {37} == {each["result"] for each in found}
    refused = answer(b"[" + b",".join([one] * 1001) + b"]")
    assert -32600 == refused["error"]["code"]
    assert "1000" in refused["error"]["message"]


def test_a_batch_in_a_batch_is_an_invalid_request():
    """Section 6 knows no such thing."""
    [found] = answer('[[{"jsonrpc": "2.0", "method": "sum", "params": [1], "id": 1}]]')
    assert -32600 == found["error"]["code"]


# -- any bytes -------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["jsonrpc", "method", "params", "id", "minuend"]), inner,
                      max_size=5),
    max_leaves=12)
NEAR = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from([*METHODS, "nothing"]) | JSON},
    optional={"params": JSON, "id": JSON})
TEXTS = (st.binary(max_size=200) | JSON.map(lambda v: json.dumps(v).encode())
         | NEAR.map(lambda v: json.dumps(v).encode())
         | st.lists(NEAR, max_size=4).map(lambda v: json.dumps(v).encode()))
CUT = st.tuples(TEXTS, st.integers(0, 80)).map(lambda both: both[0][:both[1]])


def is_answer(found):
    """True for a response object of section 5: result or error, never both."""
    if set(found) == {"jsonrpc", "result", "id"}:
        return found["jsonrpc"] == "2.0"
    return (set(found) == {"jsonrpc", "error", "id"} and found["jsonrpc"] == "2.0"
            and set(found["error"]) == {"code", "message"}
            and found["error"]["code"] in (-32700, -32600, -32601, -32602)
            and isinstance(found["error"]["message"], str))


@settings(max_examples=examples(500), deadline=None)
@given(TEXTS | CUT)
@example(b"[" * 5000)
@example(b'[{"jsonrpc": "2.0", "method": "sum", "params": [1], "id": 1}, \xff]')
def test_any_bytes_have_no_answer_or_a_right_one(body):
    """Never an exception, never -32603 (a bug), never an answer that is no JSON-RPC."""
    bugs = []
    found = dispatch(body, METHODS, None, bugs.append)
    assert [] == bugs
    if found is not None:
        found = json.loads(found)
        answers = found if isinstance(found, list) else [found]
        assert answers
        assert all(map(is_answer, answers))
