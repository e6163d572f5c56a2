"""XML-RPC as the standard library speaks it, and what no client of ours would send."""
from __future__ import annotations

import xmlrpc.client

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import WireError
from iostats.collector import xml_rpc
from iostats.wire.protocol import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR

# What XML can have in it, and no line break, which parsers may change.
TEXTS = st.text(st.characters(min_codepoint=0x20, exclude_categories=("Cs", "Cc", "Cn", "Co")))
SCALARS = st.one_of(st.integers(-2**31, 2**31 - 1), st.booleans(), TEXTS,
                    st.floats(-1e15, 1e15, allow_subnormal=False).map(lambda one: round(one, 3)))


def call(inside):
    return (f"<methodCall><methodName>getTraps</methodName><params>{inside}</params>"
            f"</methodCall>").encode()


@given(st.text("abcdefgG.", min_size=1, max_size=30), st.lists(SCALARS, max_size=5))
def test_what_the_standard_librarys_client_sends_is_read_as_it_was_meant(name, params):
    """Floats with an exponent are outside of the specification."""
    params = [one for one in params if "e" not in repr(one) or isinstance(one, str)]
    found = xml_rpc.parse_call(xmlrpc.client.dumps(tuple(params), name).encode())
    assert (name, tuple(params)) == (found.method, found.params)
    assert [*map(type, params)] == [*map(type, found.params)]


@given(st.recursive(SCALARS, lambda one: st.lists(one, max_size=4) | st.dictionaries(
    TEXTS, one, max_size=4), max_leaves=12))
def test_what_is_answered_is_read_by_the_standard_librarys_client_as_it_was_meant(result):
    shown = xml_rpc.sanitize
    found, _ = xmlrpc.client.loads(xml_rpc.answer(result))

    def expected(one):
        if isinstance(one, str):
            return shown(one)
        if isinstance(one, dict):
            return {shown(name): expected(its) for name, its in one.items()}
        return [expected(each) for each in one] if isinstance(one, list) else one
    assert (expected(result),) == found


def test_a_number_that_needs_more_than_32_bits_is_a_double_and_comes_back_as_one():
    """An <i8> would be refused by xmlrpc.client when it is sent back."""
    stamp = 2**31                                      # in 2038
    assert b"<double>2147483648.0</double>" in xml_rpc.answer(stamp)
    assert b"<int>2147483647</int>" in xml_rpc.answer(stamp - 1)
    [found], _ = xmlrpc.client.loads(xml_rpc.answer(2**53 - 1))
    back = xml_rpc.parse_call(xmlrpc.client.dumps((found,), "getTraps").encode())
    assert (float(2**53 - 1),) == back.params
    assert (-2**31,) == xmlrpc.client.loads(xml_rpc.answer(-2**31))[0]
    with pytest.raises(OverflowError):
        xmlrpc.client.dumps((stamp,), "getTraps")


def test_terminal_escapes_and_what_xml_cannot_have_are_made_visible():
    for bad in ("\x1b[31m", "a\0b", "\ud800", "\u202e", "\ufffe"):
        [found], _ = xmlrpc.client.loads(xml_rpc.answer(bad))
        assert found.isprintable() and "\\x" in found


def test_members_that_are_not_known_are_not_there():
    assert ({"health": "healthy"},) == xmlrpc.client.loads(xml_rpc.answer(
        {"health": "healthy", "clients": None}))[0]


def test_a_fault_has_its_code_and_its_text():
    with pytest.raises(xmlrpc.client.Fault) as failed:
        xmlrpc.client.loads(xml_rpc.encode_fault(-32602, "expected <int>, got 'a & b'"))
    assert (-32602, "expected <int>, got 'a & b'") == (
        failed.value.faultCode, failed.value.faultString)


BILLION_LAUGHS = ("<!DOCTYPE lolz [<!ENTITY a \"ha\">" + "".join(
    f"<!ENTITY {b} \"{f'&{a};' * 10}\">" for a, b in zip("abcdefghi", "bcdefghij"))
    + "]><methodCall><methodName>&j;</methodName></methodCall>")
VALUE = "<param><value>{}</value></param>".format


@pytest.mark.parametrize("body, code", [
    (b"", PARSE_ERROR), (b"\0\0\0", PARSE_ERROR), (b"{}", PARSE_ERROR),
    (b"<methodCall>", PARSE_ERROR),
    (b"<?xml version='1.0' encoding='rot13'?><a/>", PARSE_ERROR),
    (b"<?xml version='1.0' encoding='zlib'?><a/>", PARSE_ERROR),
    (call("")[:-1], PARSE_ERROR), (call("") + call(""), PARSE_ERROR),
    (call("&unknown;"), PARSE_ERROR),
    (BILLION_LAUGHS.encode(), INVALID_REQUEST),
    (BILLION_LAUGHS.encode("utf-16"), INVALID_REQUEST),
    (b"<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>", INVALID_REQUEST),
    (b"<!DOCTYPE methodCall>" + call(""), INVALID_REQUEST),
    (b"<a/>", INVALID_REQUEST), (b"<methodCall/>", INVALID_REQUEST),
    (b"<methodCall>" * 20_000, INVALID_REQUEST),
    (call("<param>" * 20_000), INVALID_REQUEST),
    (call(VALUE("<int>1</int>") * 100), INVALID_REQUEST),
    (call("<param/>"), INVALID_REQUEST), (call(VALUE("") * 2 + "x"), INVALID_REQUEST),
    (call(VALUE("<int>1</int><int>1</int>")), INVALID_REQUEST),
    (call(VALUE("1<int>1</int>")), INVALID_REQUEST),
    (call(VALUE("<int>1</int>1")), INVALID_REQUEST),
    (call("<param><value>1</value><value>1</value></param>"), INVALID_REQUEST),
    (b"<methodCall><methodName></methodName></methodCall>", INVALID_REQUEST),
    (b"<methodCall><methodName>%s</methodName></methodCall>" % (b"a" * 81), INVALID_REQUEST),
    (b"<methodCall><methodName>a</methodName><methodName>a</methodName></methodCall>",
     INVALID_REQUEST),
    (call(VALUE("<array><data/></array>")), INVALID_PARAMS),
    (call(VALUE("<struct>" * 60_000)), INVALID_PARAMS),
    (call(VALUE("<nil/>")), INVALID_PARAMS), (call(VALUE("<base64>AA==</base64>")), INVALID_PARAMS),
    (call(VALUE("<int></int>")), INVALID_PARAMS), (call(VALUE("<int>1.5</int>")), INVALID_PARAMS),
    (call(VALUE("<int>2147483648</int>")), INVALID_PARAMS),
    (call(VALUE("<i8>9223372036854775808</i8>")), INVALID_PARAMS),
    (call(VALUE(f"<int>{'9' * 60_000}</int>")), INVALID_PARAMS),
    (call(VALUE("<double>NaN</double>")), INVALID_PARAMS),
    (call(VALUE("<double>1e999</double>")), INVALID_PARAMS),
    (call(VALUE("<double>-INF</double>")), INVALID_PARAMS),
    (call(VALUE("<boolean>2</boolean>")), INVALID_PARAMS),
    (call(VALUE("<int>\u0663</int>")), INVALID_PARAMS)])
def test_what_is_no_call_of_ours_is_refused_with_its_code_and_one_short_line(body, code):
    """Bombs, what is deep, what is huge, types that no call has."""
    with pytest.raises(WireError) as failed:
        xml_rpc.parse_call(body)
    assert code == failed.value.code
    assert str(failed.value).isprintable() and len(str(failed.value)) < 200


@pytest.mark.parametrize("inside, value", [
    ("<int>+23</int>", 23), ("<i4> -37 </i4>", -37), ("<i8>9223372036854775807</i8>", 2**63 - 1),
    ("<double>41.5</double>", 41.5), ("<double>.5</double>", 0.5), ("<boolean>1</boolean>", True),
    ("<string/>", ""), ("", ""), (" a ", " a "), ("<string>a&lt;b</string>", "a<b"),
    ("<![CDATA[<int>]]>", "<int>"), ("<!-- c --><int>2<!-- c -->3</int>", 23)])
def test_every_scalar_of_the_specification_is_read(inside, value):
    assert (value,) == xml_rpc.parse_call(call(VALUE(inside))).params


def test_other_encodings_of_xml_are_read():
    text = "<?xml version='1.0' encoding='{}'?>" + call(VALUE("é")).decode()
    for name in ("utf-8", "utf-16", "iso-8859-1"):
        assert ("é",) == xml_rpc.parse_call(text.format(name).encode(name)).params
