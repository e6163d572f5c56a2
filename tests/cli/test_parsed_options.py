"""Each option that a class of parsed_options.py declares is made by the command's parser."""

from typing import Optional, get_type_hints

import pytest

from iostats.cli import events, jobs, list_options, parsed_options
from iostats.cli.nodes import FLAGS
from iostats.cli.parser import list_option_names, make_parser

UNSET = (bool, False), (list[str], [])          # anything else: None


def parse_nothing(options):
    return make_parser("x", "", options).parse_args([], options())


def parse_nodes():
    parser = list_options.make_list_parser(
        "x", "", list_options.TIMES + list_options.BY_FILE_SYSTEM, (), FLAGS)
    parser.add_argument("nodes", nargs="*")
    return parser.parse_args([])


@pytest.mark.parametrize("parse, declared", [
    (lambda: jobs._parse_arguments([]), parsed_options.JobsOptions),
    (lambda: events._parse_arguments([]), parsed_options.EventsOptions),
    (parse_nodes, parsed_options.NodesOptions),
    *((lambda options=options: parse_nothing(options), options) for options in (
        parsed_options.TopOptions, parsed_options.ServerOptions, parsed_options.StoreOptions)),
], ids=["jobs", "events", "nodes", "top", "server", "store"])
def test_what_is_not_given_has_the_value_that_its_type_allows(parse, declared):
    options = parse()
    expected = {name: next((value for known, value in UNSET if kind == known), None)
                for name, kind in get_type_hints(declared).items()}
    assert expected == {name: getattr(options, name) for name in expected}


def test_names_of_attributes_become_options():
    class Options:
        from_: parsed_options.Text
        state_dir: parsed_options.Text
        statsfile: Optional[list[str]]
        once: bool
        files: list[str]
        number: str = ""
    parsed = make_parser("x", "", Options).parse_args(
        ["a", "--from", "site", "--state-dir=/d", "--statsfile", "f", "g", "--once"], Options())
    assert (["a"], "site", "/d", ["f", "g"], True, "") == (
        parsed.files, parsed.from_, parsed.state_dir, parsed.statsfile, parsed.once, parsed.number)
    assert ["--from", "--state-dir", "--statsfile", "--once"] == list_option_names(Options)
