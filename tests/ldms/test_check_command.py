"""
iostats ldms check, convert: one line for what is right, one for each problem.
"""

import io

import pytest
from test_read import TODAY

from iostats.cli.ldms import main
from iostats.ldms.description.read import description

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
    assert (f"{file}: is right: 15 daemons, 12 samplers, 3 aggregators on 1 level, 2 plugin "
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
    (["check"], "iostats ldms check: expected one FILE, got 0 (see --help)"),
    (["convert", "a", "b"], "iostats ldms convert: expected one FILE, got 2 (see --help)"),
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
    assert description(TODAY + AGENTS)[0] == description(out)[0]
    assert "" == err
