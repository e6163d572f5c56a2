"""The options of a command, each declared once: what the parser makes of them, and the help."""

import pytest

from iostats.base.errors import UsageError
from iostats.cli import Options, flag, operand, operands, option, repeated, take_option
from iostats.cli.parser import parse_options


class BaseOptions(Options):
    again = flag("--again", "of the base", "shown")
    sort = option("--sort FIELD", "the smallest first", "shown")


class CopyOptions(BaseOptions, help="""\
usage: copy [options] FILE ...

which:
{which}

options:
{shown}
{options}

{mentioned}
"""):
    files = operands("FILE")
    nodes = repeated("-n, --node NODES", "of these nodes", "which", aliases="--nodes")
    both = repeated("--statsfile FILE [FILE]", "one or two")
    state_dir = option("--state-dir DIR", "where " + "23456789 " * 9, "which")
    lines = option("--lines [N|all]", "the latest", "which", bare="37")
    from_ = option("--a-long-name-of-it WHERE", "from there", "which")
    sort = option("--sort FIELD", "the largest first", "shown")


def test_the_help_has_a_line_for_each_in_its_group():
    assert """\
usage: copy [options] FILE ...

which:
  -n, --node NODES      of these nodes
  --state-dir DIR       where 23456789 23456789 23456789 23456789 23456789
                        23456789 23456789 23456789 23456789
  --lines [N|all]       the latest
  --a-long-name-of-it WHERE
                        from there

options:
  --again               of the base
  --sort FIELD          the largest first
  --statsfile FILE [FILE]
                        one or two
  -h, --help            this text

{mentioned}
""" == CopyOptions.format_help()


def test_a_line_of_the_help_is_80_wide_at_most():
    """24 and 56 are 80: the last word stays; with one letter more it is in the next line."""
    class Wide(Options, help="{options}\n"):
        fits = flag("--fits", " ".join(["1234567"] * 7))
        not_quite = flag("--not", " ".join(["1234567"] * 6 + ["12345678", "x"]))
    lines = Wide.format_help().splitlines()
    assert [79, 80, 25] == [len(line) for line in lines[:3]]


def test_the_parser_has_them_with_their_types():
    options = parse_options(CopyOptions, [
        "a", "-n", "x", "--state-dir=/d", "--again", "--nodes", "y", "--a-long-name-of-it", "home",
        "--lines", "--statsfile", "f", "g", "--sort", "size", "b"])
    assert {"files": ["a"], "nodes": ["x", "y"], "both": ["f", "g"], "state_dir": "/d",
            "lines": "37", "from_": "home", "again": True, "sort": "size"} == {
        **vars(options), "files": options.files[:1]}
    assert ["a", "b"] == options.files


def test_what_is_not_given_is_none_false_or_empty():
    assert {"files": [], "nodes": [], "both": [], "state_dir": None, "lines": None, "from_": None,
            "again": False, "sort": None} == vars(parse_options(CopyOptions, []))
    assert ["x"] == parse_options(CopyOptions, ["-n", "x"]).nodes
    assert [] == parse_options(CopyOptions, []).nodes


def test_operands_that_are_one_word():
    class One(Options):
        file = operand("FILE")
        number = operand("NUMBER", "23")
    assert {"file": "a", "number": "23"} == vars(parse_options(One, ["a"]))
    assert {"file": "a", "number": "41"} == vars(parse_options(One, ["a", "41"]))
    for words, why in (([], "the following arguments are required: FILE"),
                       (["a", "41", "x"], "unrecognized arguments: x"),
                       (["a", "--num"], "unrecognized arguments: --num")):
        with pytest.raises(UsageError) as error:
            parse_options(One, words)
        assert f"{why} (see --help)" == str(error.value)


def test_h_may_be_another_option():
    class Host(Options, help="{options}\n"):
        host = option("-h, --host HOST", "its addresses")
        daemon = flag("-d, --daemon", "in the background")
    made = parse_options(Host, ["-dhlocalhost"])
    assert ("localhost", True) == (made.host, made.daemon)
    assert "  --help                this text" == Host.format_help().splitlines()[-1]


@pytest.mark.parametrize("words, expected, remaining", [
    (["--sort", "a", "b"], ("--sort", "a"), ["b"]), (["--sort=", "b"], ("--sort", ""), ["b"]),
    (["--again", "b"], ("--again", "yes"), ["b"])])
def test_options_without_argparse(words, expected, remaining):
    word = words.pop(0)
    assert expected == take_option(word, words, BaseOptions.find_names())
    assert remaining == words


@pytest.mark.parametrize("words, why", [
    (["--sort"], "--sort: expected a value after it (see --help)"),
    (["--again=1"], "no option '--again=1'; there are: --again --sort (see --help)"),
    (["--sor", "a"], "no option '--sor'; there are: --again --sort (see --help)")])
def test_mistakes_without_argparse(words, why):
    with pytest.raises(UsageError) as error:
        take_option(words[0], words[1:], BaseOptions.find_names())
    assert why == str(error.value)
