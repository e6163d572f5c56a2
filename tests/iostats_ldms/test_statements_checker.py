r"""
The checker refuses what ldmsd refuses, and with its errno.
"""

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldmsd_refusals import ACCEPTED, MEMINFO, TABLE, P

from iostats_ldms.statements import checker
from iostats_ldms.statements.checker import check_regex_syntax, parse_interval
from iostats_ldms.statements.dialect import DIALECTS, Statement, format_statement

IDS = [" ; ".join(lines)[:70] for lines, *_ in TABLE]
@pytest.mark.parametrize("lines, old, new, said", TABLE, ids=IDS)
def test_what_is_refused(lines, old, new, said):
    for release, errno in (("4.4", old), ("4.5", new)):
        found = checker.find_problems(lines, DIALECTS[release])

        assert [errno] * bool(errno) == [problem.errno for problem in found]
        if errno and old == new:
            assert len(lines) == found[0].line or "before" in said or "has to come first" in said
            assert said.format(release) in found[0].text


def test_what_only_one_release_refuses_is_said_with_its_name():
    [found] = checker.find_problems([f"prdcr_add name=a {P} rail=1"], DIALECTS["4.4"])

    assert "prdcr_add: LDMS 4.4 has no attribute 'rail'" in found.text


def test_a_file_without_problems():
    for release in ("4.4", "4.5", "newer"):
        assert [] == checker.find_problems(ACCEPTED, DIALECTS[release])


def test_an_interval_of_nothing_is_refused_although_ldmsd_takes_it():
    """ldmsd 4.4.6 and 4.5.3 divide by it and die (SIGFPE)."""
    [found] = checker.find_problems([*MEMINFO, "start name=meminfo interval=0"], DIALECTS["4.5"])

    assert (3, 22) == (found.line, found.errno)
    assert "start: interval: expected an interval above 0" in found.text


def test_what_concerns_the_daemon_itself_may_come_last():
    lines = [f"prdcr_add name=a {P} auth=own", "auth_add name=own plugin=none"]

    assert [] == checker.find_problems(lines, DIALECTS["4.4"])


def test_all_problems_are_told_by_their_lines():
    lines = ["", "foo", f"prdcr_add name=a {P} \\", "credits=1", "listen port=1"]

    assert [2, 4, 5] == [found.line for found in checker.find_problems(lines, DIALECTS["4.5"])]


@pytest.mark.parametrize("statement, said", [
    (Statement("config", (("name", "m"), ("path", "/my data"))), "expected a value without blanks"),
    (Statement("config", (("name", "m"), ("path", "x\nexit"))), "expected a value without blanks"),
    (Statement("config", (("name", "m"), ("#path", None))), "a comment"),
    (Statement("env", (("A", "x\\"),)), "joins the next one"),
    (Statement("env", (("A", "x\0y"),)), "without blanks"),
])
def test_a_statement_that_cannot_stand_on_a_line(statement, said):
    [found] = checker.find_problems([Statement("load", (("name", "m"),)), statement],
                                    DIALECTS["4.4"])

    assert (2, 22) == (found.line, found.errno)
    assert said in found.text
    assert found.text.isprintable()


def test_an_environment_variable_may_be_any_value():
    lines = ["updtr_add name=u interval=${INTERVAL} offset=$OFFSET",
             "prdcr_add name=a host=$HOST port=${PORT} xprt=sock type=active reconnect=${R}"]

    assert [] == checker.find_problems(lines, DIALECTS["4.5"])


@given(st.lists(st.text(max_size=60), max_size=8) | st.lists(st.lists(st.sampled_from(
    ["prdcr_add", "updtr_add", "config", "start", "option", "name=a", "interval=1s", "regex=[",
     "\\", "#", "=", "port=x", "auth=", "env", "load", "listen", "xprt=sock"]),
    max_size=6).map(" ".join), max_size=8))
def test_any_text_has_an_answer(lines):
    for dialect in DIALECTS.values():
        for found in checker.find_problems(lines, dialect):
            assert 1 <= found.line <= len(lines)
            assert len(found.text) <= 400


@given(st.lists(st.tuples(
    st.sampled_from(["env", "load", "config", "updtr_add", "option"]),
    st.lists(st.tuples(st.sampled_from(["name", "interval", "A", "#x", "regex"]),
                       st.none() | st.text(max_size=6)), max_size=4)), max_size=4))
def test_a_statement_is_judged_like_its_line(made):
    """What can stand on a line is the same, written and read."""
    dialect = DIALECTS["4.5"]
    statements = [Statement(verb, tuple(attributes)) for verb, attributes in made]
    by_themselves = checker.find_problems(statements, dialect)
    if not any("blanks" in found.text or "comment" in found.text or "joins" in found.text
               for found in by_themselves):
        assert by_themselves == checker.find_problems(map(format_statement, statements), dialect)


@pytest.mark.parametrize("text, us", [
    ("23", 23), ("1.5s", 1_500_000), ("100ms", 100_000), ("2m", 120_000_000), ("37us", 37),
    ("1h", 3_600_000_000), ("1d", 86_400_000_000), ("3 s", 3_000_000), ("41 micro", 41),
    ("-1s", -1_000_000), ("2seconds", 2_000_000), ("1e3", 1000), ("soon", None), ("", None),
    ("5x", None), ("1S", None), ("1e300s", None)])
def test_intervals_as_ldmsd_reads_them(text, us):
    assert us == parse_interval(text)


def is_refused_by_libc(regex):
    """By regcomp() with the flags REG_EXTENDED (1) and REG_NOSUB (8)."""
    compiled = ctypes.create_string_buffer(256)
    return bool(ctypes.CDLL(None).regcomp(compiled, regex.encode(), 9))


@pytest.mark.parametrize("regex", [
    ".*", "node-[0-9]+", "^a$", "(a|b)*", "[]a]", "[^]]", "[[:digit:]]x", "a\\(", "a{2,3}", "", "(",
    ")", "a)", "[a", "[[:digit:]", "[^]", "a\\", "(()", "[a-c]{2}(x)", "\\[a", "[\\]"])
def test_expressions_as_regcomp_takes_them(regex):
    assert is_refused_by_libc(regex) == bool(check_regex_syntax(regex))


@given(st.text("ab[]()\\^*-:$.|=", max_size=9))
def test_no_expression_is_refused_that_regcomp_takes(regex):
    if check_regex_syntax(regex):
        assert is_refused_by_libc(regex)
