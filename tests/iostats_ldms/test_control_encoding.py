"""
The numbers of verbs and attributes, in both releases, and statements there and back.

Expected numbers are counted by hand in enum ldmsd_request and ldmsd_request_attr of each release.
"""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats_ldms.control.encoding import (
    ATTRIBUTE_IDS,
    VERB_IDS,
    UnsupportedStatement,
    decode_statement,
    encode_statement,
)
from iostats_ldms.statements.dialect import Statement


@pytest.mark.parametrize("verb, of_4_4, of_4_5", [
    ("cfg_cntr", 0x3, 0x3), ("prdcr_add", 0x100, 0x100), ("prdcr_stream_status", 0x10b, 0x10b),
    ("bridge_add", None, 0x10c), ("advertiser_add", 0x10c, 0x10d),
    ("prdcr_listen_status", 0x114, 0x115), ("advertise", 0x115, 0x116),
    ("strgp_status", 0x204, 0x204), ("updtr_match_list", 0x30a, 0x30a), ("start", 0x502, 0x502),
    ("plugn_sets", 0x509, 0x509), ("daemon_status", 0x603, 0x603), ("version", 0x604, 0x604),
    ("listen", 0x610, 0x610), ("stream_enable", None, 0x907), ("auth_add", 0xa00, 0xa00),
    ("msg_enable", None, 0xc03), ("profiling", None, 0x61f)])
def test_the_number_of_a_verb(verb, of_4_4, of_4_5):
    """4.5 put bridge_add before the advertisers: what follows has another number."""
    assert (VERB_IDS["4.4"].get(verb), VERB_IDS["4.5"].get(verb)) == (of_4_4, of_4_5)


@pytest.mark.parametrize("name, of_4_4, of_4_5", [
    ("name", 1, 1), ("string", 16, 16), ("json", 26, 26), ("decomposition", 37, 37),
    ("rail", None, 38), ("rx_rate", None, 40), ("summary", 38, 41), ("cache_ip", 40, 43),
    ("exclusive_thread", None, 48), ("message_tag", None, 49), ("reconnect", 2, 2),
    ("flush", 2, 2), ("disable_start", 31, 31), ("advertiser_port", None, 10)])
def test_the_number_of_an_attribute(name, of_4_4, of_4_5):
    """4.5 put rail, quota and rx_rate before summary."""
    assert (ATTRIBUTE_IDS["4.4"].get(name), ATTRIBUTE_IDS["4.5"].get(name)) == (of_4_4, of_4_5)


@pytest.mark.parametrize("statement, expected", [
    (Statement("prdcr_start", (("name", "node-23"),)), (0x102, [(1, "node-23")])),
    (Statement("config", (("name", "m"), ("producer", "node-23"), ("test_path", None))),
     (0x507, [(1, "m"), (16, "producer=node-23 test_path")])),
    (Statement("env", (("A", "23"), ("B", "37"))), (0x605, [(16, "A=23 B=37")])),
    (Statement("listen", (("xprt", "sock"), ("port", "411"), ("conf", "/etc/a"))),
     (0x610, [(8, "sock"), (10, "411"), (16, "conf=/etc/a")])),
    (Statement("auth_add", (("name", "a"), ("plugin", "ovis"), ("conf", "/etc/a"))),
     (0xa00, [(1, "a"), (12, "ovis"), (16, "conf=/etc/a")])),
    (Statement("advertiser_add", (("name", "a"), ("reconnect", "23"))),
     (0x10d, [(1, "a"), (2, "23"), (5, "advertiser")])),
    (Statement("bridge_add", (("name", "b"),)), (0x10c, [(1, "b"), (5, "bridge")])),
    (Statement("daemon_status", ()), (0x603, [])),
], ids=lambda value: value.verb if isinstance(value, Statement) else "")
def test_what_a_command_holds(statement, expected):
    """As ldmsd_parse_config_str() makes it of a line of a file."""
    assert encode_statement(statement, "4.5") == expected
    back = decode_statement(*expected, "4.5")
    assert back.verb == statement.verb
    assert [value for _name, value in back.attributes] == [v for _n, v in statement.attributes]


@pytest.mark.parametrize("statement, dialect, errno, words", [
    (Statement("prdcr_sta", ()), "4.5", 38, "LDMS 4.5 has no command prdcr_sta"),
    (Statement("stream_enable", ()), "4.4", 38, "LDMS 4.4 has no command stream_enable"),
    (Statement("prdcr_add", (("quota", "23"),)), "4.4", 22, "no attribute quota (prdcr_add)"),
    (Statement("prdcr_start", (("name", "a\0b"),)), "4.5", 22, "a NUL in an attribute")])
def test_what_a_release_has_no_words_for(statement, dialect, errno, words):
    """With the number that ldmsd itself ends with at such a line."""
    with pytest.raises(UnsupportedStatement) as error:
        encode_statement(statement, dialect)
    assert (error.value.errno, words in str(error.value)) == (errno, True)


NAMES = st.sampled_from([name for name in ATTRIBUTE_IDS["4.5"]
                         if name in ATTRIBUTE_IDS["4.4"] and name not in ("string", "type")])


@given(st.sampled_from(sorted(VERB_IDS)), st.data())
def test_every_statement_comes_back(dialect, data):
    """But for names of an attribute that mean the same, which it has one number for."""
    verb = data.draw(st.sampled_from(sorted(VERB_IDS[dialect])))
    values = st.one_of(st.none(), st.text(
        st.characters(blacklist_categories=("Cs", "Zs", "Cc")), min_size=1).filter(
            lambda text: not any(letter.isspace() or letter == "=" for letter in text)))
    attributes = tuple(data.draw(st.lists(st.tuples(NAMES, values), max_size=6)))
    number, held = encode_statement(Statement(verb, attributes), dialect)
    back = decode_statement(number, held, dialect)
    assert VERB_IDS[dialect][back.verb] == number
    ids = ATTRIBUTE_IDS[dialect]
    assert (sorted((ids[name], str(value)) for name, value in back.attributes)
            == sorted((ids[name], str(value)) for name, value in attributes))


def test_a_number_that_is_unknown_stays_one():
    """A newer client asks a simulation."""
    assert decode_statement(0x999, [(63, "x")], "4.5") == Statement("0x999", (("63", "x"),))
