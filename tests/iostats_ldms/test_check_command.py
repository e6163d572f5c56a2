"""
iostats ldms check, convert: one line for what is right, one for each problem.
"""

import contextlib
import io
import json
import tempfile

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_convert import documents
from test_read import TODAY

from iostats_ldms.cli import main
from iostats_ldms.description.read import read_description

AGENTS = "iostats: [{hosts: 'oss[1-37]', settings: {harvest: {interval: 10}}}]\n"


@pytest.fixture
def file(tmp_path):
    """Its text is TODAY, with three storage servers' agents."""
    path = tmp_path / "cluster.yaml"
    path.write_text(TODAY + AGENTS, encoding="utf-8")
    return path


def test_what_is_right_is_one_line(file, capsys):
    assert 0 == main(["check", str(file)])

    out, err = capsys.readouterr()
    assert (f"{file}: valid: 15 daemons, 12 samplers, 3 aggregators on 1 level, 2 plugin "
            "instances, 1 storage policy, 37 storage servers\n", "") == (out, err)


def test_with_warnings_it_is_right(file, capsys):
    file.write_text(TODAY.replace("maestro_comm", "comm", 1), encoding="utf-8")

    assert 0 == main(["check", str(file)])

    out, err = capsys.readouterr()
    assert out.endswith(", 1 storage policy, 1 warning\n")
    assert (f"iostats: {file}:7:15: daemons[0].endpoints[0].comm: unknown key, which is ignored "
            "(warning)\n") == err


def test_what_is_wrong_is_a_line_each(file, capsys):
    file.write_text(TODAY.replace("20s", "soon").replace("1.5s", "\x1b[2J"), encoding="utf-8")
    assert 1 == main(["check", str(file)])
    assert ("", f"iostats: {file}:20:24: expected printable text in UTF-8, got a control character,"
                " '\\x1b'\n") == capsys.readouterr()

    file.write_text(TODAY.replace("20s", "soon").replace("1.5s", "then"), encoding="utf-8")
    for command in ("check", "convert"):
        assert 1 == main([command, str(file)])
        out, err = capsys.readouterr()
        assert "" == out
        assert [f"iostats: {file}:17:20", f"iostats: {file}:20:24"] == [
            line[:line.index(": agg")] for line in err.splitlines()]


def test_bytes_that_are_no_utf_8_have_their_place(file, capsys):
    file.write_bytes(b"daemons:\n  - caf\xe9\n")

    assert 1 == main(["check", str(file)])

    assert (f"iostats: {file}:2:8: expected printable text in UTF-8, got a byte that is not UTF-8, "
            "'\\udce9'\n") == capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "convert", "load"])
def test_a_file_that_is_too_long_is_wrong(command, file, capsys):
    """As one that is wrong otherwise; load asks no etcd before."""
    with open(file, "ab") as grows:
        grows.truncate((32 << 20) + 1)

    assert 1 == main([command, str(file)])

    assert ("", f"iostats: {file}:1:1: expected at most 32 MiB, got more\n") == capsys.readouterr()


@pytest.mark.parametrize("arguments, expected", [
    (["check"], "the following arguments are required: FILE (see --help)"),
    (["convert", "a", "b"], "unrecognized arguments: b (see --help)"),
    (["check", "/nonexistent/x"], "/nonexistent/x: cannot be read: No such file or directory"),
    (["check", "/tmp"], "/tmp: cannot be read: Is a directory"),
])
def test_bad_usage(arguments, expected, capsys):
    assert 2 == main(arguments)
    assert ("", f"iostats: {expected}\n") == capsys.readouterr()


def test_standard_input_that_is_closed_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)

    assert 2 == main(["check", "-"])

    assert ("", "iostats: standard input: expected a description, it is closed\n"
            ) == capsys.readouterr()


def test_convert_reads_standard_input_too(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((TODAY + AGENTS).encode())))

    assert 0 == main(["convert", "-"])

    out, err = capsys.readouterr()
    assert read_description(TODAY + AGENTS)[0] == read_description(out)[0]
    assert "" == err



@pytest.mark.parametrize("first, release", [
    ("", "4.5"), ("ldms_release: v4.5.1\n", "4.5"), ("ldms_release: newer\n", "newer")])
@pytest.mark.parametrize("command", ["check", "generate", "load"])
def test_what_an_ldmsd_would_refuse_is_refused_by_each(file, tmp_path, capsys, command, first,
                                                       release):
    """The name of a plugin instance, of 300 letters; load refuses it before etcd is asked."""
    file.write_text(first + TODAY.replace("mem1", "p" * 300), encoding="utf-8")
    more = {"check": [], "generate": ["-o", str(tmp_path / "out")],
            "load": ["--etcd", "http://127.0.0.1:1"]}[command]
    assert 1 == main([command, str(file), *more])
    out, err = capsys.readouterr()
    assert "" == out
    assert [f"LDMS {release} would refuse", "name: expected up to 255 letters, got 300"] == [
        words for words in (f"LDMS {release} would refuse",
                            "name: expected up to 255 letters, got 300") if words in err]
    assert 1 == err.count("\n")


def test_the_description_names_the_release_of_generate(file, tmp_path, capsys):
    """And the option --ldms names another one."""
    file.write_text("ldms_release: 4.4.6\n" + TODAY, encoding="utf-8")
    for more, release in (([], "4.4"), (["--ldms", "newer"], "newer")):
        assert 0 == main(["generate", str(file), "-o", "-", *more])
        assert f", LDMS {release}; changes here are lost" in capsys.readouterr().out


@pytest.mark.parametrize("written, why", [
    ("4.2.0", "LDMS 4.2.0 is not supported; there are: 4.4, 4.5, newer"),
    ("UNKNOWN", "expected a release of LDMS such as 4.4 or 4.5, got 'UNKNOWN'"),
    ("[4.5]", "expected a release of LDMS such as 4.4 or 4.5, got ''")])
def test_a_release_that_is_none_is_refused_with_its_place(file, capsys, written, why):
    file.write_text(f"ldms_release: {written}\n" + TODAY, encoding="utf-8")
    assert 1 == main(["check", str(file)])
    assert f"iostats: {file}:1:15: ldms_release: {why}\n" == capsys.readouterr().err
    assert 2 == main(["generate", str(file), "-o", "-", "--ldms", "4.2.0"])
    assert "--ldms: LDMS 4.2.0 is not supported" in capsys.readouterr().err


ODD = st.sampled_from(["p" * 300, "é" * 200, "a=b", "a b", "$(x)", "${HOME}", "'", "a,b", ".", "#",
                       "\\", "-", "name", "0", "(", "a\tb", "/x", "p" * 255, "p" * 70_000])


def replaced(node, number, text):
    """A copy of nested lists and mappings in which the text `number`, key or value, is `text`."""
    left = [number]

    def walk(one):
        if isinstance(one, dict):
            return {walk(key): walk(value) for key, value in one.items()}
        if isinstance(one, list):
            return [walk(value) for value in one]
        if isinstance(one, str):
            left[0] -= 1
            return text if left[0] == -1 else one
        return one
    return walk(node)


@settings(max_examples=examples(150), deadline=None)
@given(documents(), st.integers(0, 120), ODD)
def test_what_check_accepts_generate_writes(document, number, text):
    """Any description with any odd text in any place."""
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(
            io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        path = f"{directory}/d.yaml"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(replaced(document, number, text), file, ensure_ascii=False)
        checked = main(["check", path])
        assert checked == main(["generate", path, "-o", f"{directory}/out"])
