"""
The table of levels: names, keys and letters are unambiguous, and each level has all of its parts.
"""
from __future__ import annotations

import pytest
from test_node_rows import KnownNodes, with_clients
from test_ranking import two_targets

from iostats.base.job_facts import Facts
from iostats.load import levels, query_table, ranking, table
from iostats.load.levels import BOTH, CLIENTS, IDS, LEVELS, OF_TOP, QUERIES
from iostats.load.ranking import LoadQuery

_FACTS = Facts(job="4711", user="alice", nodes="nid[001-002]")


def each_once(names):
    return len(names) == len(set(names))


def test_no_two_levels_are_called_alike():
    """By name and by the command line's name; keys; letters and words of `query`."""
    assert each_once([name for level in LEVELS for name in {level.name, level.option_name}])
    assert each_once([level.key for level in OF_TOP if level.key])
    assert each_once([word for query in QUERIES for word in (query.letter, query.word)])
    assert all(query.letter and query.word and query.help for query in QUERIES)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_each_level_can_be_seen_and_found_by_its_name(level):
    assert level is levels.find_level(level.name)
    assert level.is_in_top or level.queries
    for query in level.queries:
        assert (level, query) == levels.find_query(query.letter) == levels.find_query(query.word)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_each_level_has_rows_and_tables(level):
    """Each row has its name, as the table says in the first column."""
    load = with_clients() if level.rows_of == CLIENTS else two_targets()
    answer = ranking.answer(load, LoadQuery(level.name), KnownNodes)
    assert answer["rows"] and all(level.row_member in row for row in answer["rows"])
    if level.is_in_top:
        _, heading, *_ = table.format_lines(answer)
        assert heading.split()[0] == level.title.split()[0]
    for query in level.queries:
        rows = [{**row, "rates_lower_bound": True} for row in answer["rows"]]
        _, heading, *_ = query_table.format_lines({"level": query.letter, **answer, "rows": rows})
        assert heading.split()[0] == level.title.split()[0]
        assert query.kind != BOTH or "/S" in heading


@pytest.mark.parametrize("level", [level for level in LEVELS if level.rows_of == IDS],
                         ids=lambda level: level.name)
def test_a_level_that_needs_the_batch_system_knows_nothing_without_it(level):
    """And the others do not need it."""
    without = level.group("4711", None) or None
    assert level.needs_batch_system == (without is None)
    assert level.group("4711", _FACTS) in ("4711", "alice", "nid[001-002]")


def test_what_is_no_level_is_none():
    for find in (levels.find_level, levels.find_query):
        with pytest.raises(KeyError):
            find("disk")


def test_help_is_made_of_the_table_and_fits_a_terminal():
    lines = [*levels.format_keys_help(24).splitlines(), *levels.query_help().splitlines()]
    assert max(map(len, lines)) <= 80
    words = " ".join(" ".join([levels.format_levels(), *lines]).replace(",", " ").split())
    for level in OF_TOP:
        assert level.option_name in words and level.words in words
    assert "a and e" == levels.list_target_letters()
