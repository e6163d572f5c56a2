"""
site.cfg: four places, the later one wins, and every mistake is told in one line.
"""

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import ROOT

from iostats import sinks
from iostats.base import config
from iostats.base.config import Config, load
from iostats.base.errors import ConfigError, StateError
from iostats.base.options import FREE_SECTIONS, OPTIONS, SECTIONS
from iostats.cli import config as config_command


@pytest.fixture
def nobody(tmp_path, monkeypatch):
    """A machine without any configuration; the environment of a user whose home is tmp_path."""
    monkeypatch.setattr(config, "BESIDE", str(tmp_path / "beside.cfg"))
    monkeypatch.setattr(config.os.path, "exists", lambda path: False)       # no /etc/iostats
    (tmp_path / ".iostats").mkdir()
    return {"HOME": str(tmp_path)}


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def values(choices):
    return {name: choices.get_value(name) for name in choices.options}


# -- defaults ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIONS)
def test_every_default_is_itself_a_choice_that_is_allowed(name):
    """A default that its own check refuses would stop every command."""
    option = OPTIONS[name]
    choices = Config()
    choices.set_value(name, option.default, "the test")
    assert choices.get_value(name) == Config().get_value(name)
    assert option.help.endswith(".") and option.expected


def test_a_comma_between_ends_of_names_is_a_mistake(nobody):
    """It would be a part of one, which no name has."""
    with pytest.raises(ConfigError) as refusal:
        load(environ={**nobody, "IOSTATS_CLIENTS_REMOVE_SUFFIXES": "-ib0,-opa"})
    assert ("[clients] remove_suffixes: expected ends of names, several with spaces between, got "
            "'-ib0,-opa'") in str(refusal.value)


def test_without_any_file_the_defaults_are_in_force(nobody):
    """And they say so."""
    choices = load(environ=nobody)
    assert (20000, 29999, 60.0, "grid", "binary", []) == tuple(map(choices.get_value, (
        "server.port_first", "server.port_last", "server.deadline", "report.format",
        "report.units", "report.columns")))
    assert {"the default"} == set(choices.origin.values())
    assert {} == choices.labels


# -- which one wins ----------------------------------------------------------------------


def test_the_later_place_wins_and_each_value_knows_where_it_came_from(nobody, tmp_path):
    """System's file < user's own < environment < command line; what one does not say stays."""
    system = write(tmp_path / "beside.cfg", "[server]\nport_first = 10023\nport_last = 10037\n"
                                            "deadline = 41\nidle_timeout = 43\n")
    user = write(tmp_path / ".iostats" / "site.cfg", "[server]\nport_last = 10047\ndeadline = 53\n")
    choices = load(environ={**nobody, "IOSTATS_SERVER_DEADLINE": "59"})
    choices.set_value("server.idle_timeout", "61", "--idle-timeout")
    assert (10023, 10047, 59.0, 61.0) == (
        choices.server.port_first, choices.server.port_last, choices.server.deadline,
        choices.server.idle_timeout)
    assert (f"{system}:2", f"{user}:2", "environment: IOSTATS_SERVER_DEADLINE", "--idle-timeout",
            "the default") == tuple(choices.origin[f"server.{key}"] for key in (
                "port_first", "port_last", "deadline", "idle_timeout", "max_nodes"))


def test_config_stands_for_both_files(nobody, tmp_path):
    """--config FILE: neither the system's nor the user's file is read then."""
    write(tmp_path / "beside.cfg", "[server]\ndeadline = 41\n")
    write(tmp_path / ".iostats" / "site.cfg", "[server]\nidle_timeout = 43\n")
    path = write(tmp_path / "mine.cfg", "[report]\nunits = decimal\n")
    choices = load(path, nobody)
    assert ("decimal", 60.0, 10.0) == (choices.report.units, choices.server.deadline,
                                       choices.server.idle_timeout)


def test_labels_of_both_files_are_known(nobody, tmp_path):
    """The user's own name for a file system wins over the site's."""
    write(tmp_path / "beside.cfg", "[labels]\nsnx11001 = BW Home\nsnx11002 = BW Projects\n")
    write(tmp_path / ".iostats" / "site.cfg", "[labels]\nsnx11002 = mine\n")
    assert {"snx11001": "BW Home", "snx11002": "mine"} == load(environ=nobody).labels


@pytest.mark.parametrize("home", ["", "relative/path", "/nowhere/at/all"])
def test_a_home_that_is_not_there_is_no_mistake(nobody, home):
    """Prologs run without HOME, or before it is mounted."""
    assert 60.0 == load(environ={"HOME": home}).server.deadline


# -- mistakes ----------------------------------------------------------------------------

def test_a_key_that_is_set_twice_is_a_mistake(tmp_path):
    """The line can be found."""
    path = write(tmp_path / "site.cfg", "[server]\nidle_timeout = 23\nidle_timeout = 37\n")
    with pytest.raises(ConfigError) as refusal:
        load(path, {})
    assert f"{path}:3: [server] idle_timeout is set in line 2 already; remove one" == str(
        refusal.value)


@pytest.mark.parametrize("text, mistake", [
    ("[collector]\nallow = mds1\n",
     "[collector] allow: expected addresses and ranges, several with spaces between"),
    ("[syslog]\nsend_to = log1:514\n", "[syslog] send_to: expected udp://HOST:PORT, "
     "tcp://HOST:PORT or a path such as /dev/log, got 'log1:514'"),
    ("[syslog]\nsend_to = tcp://log1\n", "[syslog] send_to: expected udp://HOST:PORT, "),
    ("[syslog]\nsd_id = iostats\n", "[syslog] sd_id: expected NAME@NUMBER of up to 32 "),
    ("[syslog]\nsd_id = a b@1\n", "[syslog] sd_id: expected NAME@NUMBER of up to 32 ")])
def test_what_a_server_would_refuse_at_its_start_is_said_by_the_check(tmp_path, capsys, text,
                                                                      mistake):
    """Also options of a part that is not turned on."""
    path = write(tmp_path / "site.cfg", text)
    assert 2 == config_command.main(["--check", "--config", path])
    out, err = capsys.readouterr()
    assert "" == out and err.startswith(f"iostats: {path}:2: {mistake}") and 1 == err.count("\n")


def test_a_program_that_is_not_on_this_machine_is_a_note(tmp_path, capsys):
    """The site's server may be another machine with the same site.cfg."""
    path = write(tmp_path / "site.cfg", "[events]\non_critical = /no/such\n")
    assert 0 == config_command.main(["--check", "--config", path])
    assert (f"iostats: {path}:2: [events] on_critical: expected a program, got '/no/such', which "
            "is not there; the site's server does not start without it\n"
            ) == capsys.readouterr().err


# -- the form ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "[server]\nhost = login1\n",
    "[server]\nhost=login1\n",
    "  [server]  \n\t host  =  login1  \n",
    "# a comment\n; another\n\n[server]\n# host = other\nhost = login1",
    "[server]\r\nhost = login1\r\n",
    "[ server ]\nhost = login1\n",
    "[report]\n[server]\nhost = login1\n[report]\n",
], ids=["plain", "without blanks", "with many blanks", "comments, no newline at the end",
        "line ends of Windows", "blanks in the section", "sections again and empty"])
def test_the_form_is_ini(tmp_path, text):
    """As people write it by hand."""
    assert "login1" == load(write(tmp_path / "site.cfg", text), {}).server.host


def test_a_value_may_contain_what_looks_like_the_form(tmp_path):
    """Only the first = divides, and a # inside a value is a #."""
    path = write(tmp_path / "site.cfg", "[labels]\nsnx11001 = Home = #1 [fast]\n")
    assert {"snx11001": "Home = #1 [fast]"} == load(path, {}).labels


def test_a_label_may_be_in_any_language(tmp_path):
    """The file is UTF-8, as are the tables."""
    path = write(tmp_path / "site.cfg", "[labels]\nsnx11001 = Größe ☃\n")
    assert {"snx11001": "Größe ☃"} == load(path, {}).labels


@pytest.mark.parametrize("text, message", [
    ("[sever]\n", ":1: expected one of the sections node server batch run site harvest events "
                  "clients collector etcd ldms web secret report findings ganglia influxdb "
                  "prometheus syslog labels finding_text relay relay_from, got '[sever]'"),
    ("[server]\ndealine = 60\n",
     ":2: [server] has no key 'dealine'; it has: host port_first port_last"),
    ("[server]\ndeadline = soon\n",
     ":2: [server] deadline: expected seconds, from 0 to 10000000, got 'soon'"),
    ("[server]\ndeadline = -1\n",
     ":2: [server] deadline: expected seconds, from 0 to 10000000, got '-1'"),
    ("[server]\ndeadline = nan\n",
     ":2: [server] deadline: expected seconds, from 0 to 10000000, got 'nan'"),
    ("[server]\ndeadline = inf\n",
     ":2: [server] deadline: expected seconds, from 0 to 10000000, got 'inf'"),
    ("[server]\nport_first = 0\n",
     ":2: [server] port_first: expected a number from 1 to 65535, got '0'"),
    # Of what root's services and hooks keep: where they run is nobody's choice.
    ("[node]\nhook_dir = iostats/node\n",
     ":2: [node] hook_dir: expected a directory whose path begins with /, got 'iostats/node'"),
    ("[site]\nstore = site.sqlite\n",
     ":2: [site] store: expected a file whose path begins with /, or postgresql://..., got "
     "'site.sqlite'"),
    ("[harvest]\nspool_dir =\n",
     ":2: [harvest] spool_dir: expected a directory whose path begins with /, got ''"),
    ("[server]\nport_first = 65536\n",
     ":2: [server] port_first: expected a number from 1 to 65535, got '65536'"),
    ("[server]\nport_first = 20000.5\n",
     ":2: [server] port_first: expected a number from 1 to 65535, got '20000.5'"),
    ("[server]\nport_first = \uff12\uff13\n",
     ":2: [server] port_first: expected a number from 1 to 65535, got '"),
    ("[server]\nport_first =\n",
     ":2: [server] port_first: expected a number from 1 to 65535, got ''"),
    ("[server]\nport_first = 20000 # first\n",
     ":2: [server] port_first: expected a number from 1 to 65535, got '20000 # first'"),
    ("[server]\nport_first = 20023\nport_last = 20000\n",
     ":3: [server] port_last: expected a port of at least port_first = 20023, got '20000'"),
    ("[report]\nformat = html\n", ":2: [report] format: expected grid, plain, json, csv or "
                                  "markdown, got 'html'"),
    ("[report]\nunits = Binary\n",
     ":2: [report] units: expected binary, decimal or bytes, got 'Binary'"),
    ("[server]\nhost\n", ":2: expected [section], key = value or # comment, got 'host'"),
    ("[server]\n= login1\n", ":2: expected [section], key = value or # comment, got '= login1'"),
    ("[server\n", ":1: expected [section], key = value or # comment, got '[server'"),
    ("[server] # ours\n", ":1: expected [section], key = value or # comment, got "),
    ("host = login1\n", ":1: expected [section] before the first key, got 'host = login1'"),
    ("[server]\nhost = a\n\nhost = b\n",
     ":4: [server] host is set in line 2 already; remove one"),
    ("[server]\nhost = \x1b[2Jlogin1\n",
     ":2: [server] host: expected a host name, got '\\x1b[2Jlogin1'"),
    ("\x7fELF\x02\x01\x01\x00", ":1: expected [section], key = value or # comment, got "),
], ids=["unknown section", "a typo in a key", "a word for a number", "negative seconds",
        "not a number", "for ever", "port 0", "hooks somewhere", "a store somewhere", "no spool",
        "a port too high", "a port with a fraction",
        "fullwidth digits", "an empty number", "a comment behind a value", "an empty range",
        "an unknown format", "a capital", "no =", "no key", "an open bracket",
        "a comment behind a section", "no section", "a key twice", "a terminal's escape",
        "a program"])
def test_a_mistake_names_file_line_section_key_and_what_is_allowed(tmp_path, text, message):
    """One line, that can be acted on without the documentation."""
    path = write(tmp_path / "site.cfg", text)
    with pytest.raises(ConfigError) as refusal:
        load(path, {})
    assert str(refusal.value).startswith(path + message)
    assert 2 == refusal.value.exit_status
    assert str(refusal.value).isprintable()


def test_a_mistake_in_the_environment_names_the_variable(nobody):
    """There is no line to name."""
    with pytest.raises(ConfigError) as refusal:
        load(environ={**nobody, "IOSTATS_REPORT_UNITS": "miles"})
    assert ("environment: IOSTATS_REPORT_UNITS: [report] units: expected binary, decimal or "
            "bytes, got 'miles'") == str(refusal.value)


@pytest.mark.parametrize("name, why", [("missing.cfg", "No such file or directory"),
                                       (".", "Is a directory")])
def test_a_file_that_was_named_and_cannot_be_read_is_a_mistake(tmp_path, name, why):
    """Else a typo in --config would silently give the defaults."""
    with pytest.raises(ConfigError) as refusal:
        load(str(tmp_path / name), {})
    assert f"{tmp_path / name}: cannot be read: {why}" == str(refusal.value)


@pytest.mark.parametrize("owner, is_error", [(os.geteuid(), True), (4711, False)])
def test_a_users_own_file_that_cannot_be_read_is_a_mistake(tmp_path, monkeypatch, owner, is_error):
    """One of another user, whose HOME `su` has left as it was, is not for this one."""
    directory = tmp_path / ".iostats"
    directory.mkdir()
    path = write(directory / "site.cfg", "[server]\nidle_timeout = 37\n")
    read_text, status = config.read_text, os.stat(directory)

    def denied(name, **more):
        if name == path:
            raise PermissionError(13, "Permission denied")
        return read_text(name, **more)
    monkeypatch.setattr(config, "read_text", denied)
    monkeypatch.setattr(config, "_is_trusted", lambda path: True)
    monkeypatch.setattr(os, "stat", lambda name, *more, stat=os.stat, **others: (
        os.stat_result((*status[:4], owner, *status[5:])) if name == str(directory)
        else stat(name, *more, **others)))
    environ = {"HOME": str(tmp_path)}
    if not is_error:
        assert 10 == load(environ=environ).server.idle_timeout
        return
    with pytest.raises(ConfigError, match=r"site\.cfg: cannot be read: Permission denied$"):
        load(environ=environ)


def test_bytes_that_are_no_utf_8_are_a_mistake(tmp_path):
    """A label in another encoding would come out wrong in every table."""
    path = write(tmp_path / "site.cfg", b"[labels]\nsnx11001 = Gr\xf6\xdfe\n")
    with pytest.raises(ConfigError) as refusal:
        load(path, {})
    assert f"{path}:2: expected text in UTF-8" == str(refusal.value)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(
    lambda text: text.encode("utf-8", "surrogatepass")), st.lists(st.sampled_from([
        "[server]", "[labels]", "[report]", "port_first = 23", "port_last=9", "host", "=", "#x",
        "units = binary", "a = b", "\x00", "deadline = 1e3"])).map(
            lambda lines: "\n".join(lines).encode())))
def test_no_file_at_all_raises_anything_but_a_config_error(tmp_path_factory, data):
    """And what it raises is one printable line."""
    path = tmp_path_factory.getbasetemp() / "fuzz.cfg"
    path.write_bytes(data)
    try:
        load(str(path), {})
    except ConfigError as refusal:
        assert str(refusal).isprintable()


# -- keys in the code --------------------------------------------------------------------


def test_keys_that_the_code_names_as_text_are_keys():
    """`config.server.host` is checked by mypy; config.locate("server.host") and the like here."""
    names = set()
    for path in (*ROOT.glob("iostats/**/*.py"), *ROOT.glob("iostats_ldms/**/*.py")):
        names |= set(re.findall(
            r'\b(?:locate|set_value|get_value|find_state_path)\((?:config, )?["\'](\w+\.\w+)["\']',
            path.read_text(encoding="utf-8")))
    config = Config()
    sinks.add_sections(config)
    assert len(names) > 20 and names <= set(config.options)


def test_each_configuration_has_values_of_its_own():
    """Also of lists, which are mutable."""
    first, second = Config(), Config()
    first.collector.allow.append("10.23.0.0/16")
    first.server.port_first = 23
    assert ["127.0.0.0/8", "::1"] == second.collector.allow
    assert 20000 == second.server.port_first


# -- the site.cfg that is shipped --------------------------------------------------------


def test_the_reference_has_every_key_with_its_default():
    """docs/reference/site_cfg.md: a section for each section, and a row for each key."""
    page = (ROOT / "docs/reference/site_cfg.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"(?ms)^## \[(\w+)\]$(.*?)(?=^## |^<!-- end|\Z)", page))
    assert set(SECTIONS) <= set(sections)
    assert set(FREE_SECTIONS) <= set(sections)
    for name, option in OPTIONS.items():
        section, _, key = name.partition(".")
        default = f"`{option.default}`" if option.default else ""
        assert f"\n| `{key}` | {default} | " in sections[section], name


def test_site_cfg_has_the_keys_that_most_sites_change():
    """Up to 30 of them, commented out, each with its default: a site removes the "#"."""
    shown, section = {}, ""
    for line in (ROOT / "site.cfg").read_text(encoding="utf-8").splitlines():
        section = line[1:-1] if line.startswith("[") else section
        key, mark, value = line[1:].partition(" =")
        if mark and re.fullmatch(r"#\w+", line[:1] + key) and section not in FREE_SECTIONS:
            shown[f"{section}.{key}"] = value.strip()
    own = {name: value for name, value in shown.items() if name in OPTIONS}
    assert own == {name: OPTIONS[name].default for name in own}
    assert 20 <= len(own) <= len(shown) <= 30
    assert {"site.host", "server.auth", "node.python", "web.address"} <= set(own)  # make install


def test_site_cfg_as_it_is_shipped_changes_nothing():
    """It loads without error, and each value is still the default."""
    choices = load(str(ROOT / "site.cfg"), {})
    assert values(Config()) == values(choices)
    assert {"the default"} == set(choices.origin.values())


def test_site_cfg_with_every_comment_sign_taken_away_is_still_good(tmp_path):
    """The form shown for each key is the form that is read."""
    text = re.sub(r"(?m)^#(\w+ =)", r"\1", (ROOT / "site.cfg").read_text(encoding="utf-8"))
    assert values(Config()) == values(load(write(tmp_path / "site.cfg", text), {}))


# -- where an ordinary user's state is -----------------------------------------------------------

@pytest.mark.parametrize("user, state_home, given, found", [
    (1000, "{home}/state", None, "{home}/state/iostats/iostats-collector"),
    (1000, "", None, "{home}/.local/state/iostats/iostats-collector"),
    (1000, "state", None, "{home}/.local/state/iostats/iostats-collector"),
    (1000, "", "/nowhere/23", "/nowhere/23"), (1000, "", "", ""),
    (0, "", None, "/var/lib/iostats-collector")],
    ids=["named", "default", "a relative path is ignored", "site.cfg", "in memory", "root"])
def test_state_is_where_this_user_may_write(tmp_path, monkeypatch, user, state_home, given, found):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", state_home.format(home=tmp_path))
    monkeypatch.setattr(config.os, "geteuid", lambda: user)
    monkeypatch.setattr(config.os, "access", lambda path, mode: False)
    choices = Config()
    if given is not None:
        choices.set_value("collector.state_dir", given, "a test")
    assert found.format(home=tmp_path) == config.find_state_path(choices, "collector.state_dir")


def test_state_is_in_the_default_where_this_user_may_write_there(tmp_path, monkeypatch):
    """As systemd makes it for the unit's user."""
    asked = []
    monkeypatch.setattr(config.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(config.os, "access", lambda path, mode: asked.append(path) or True)
    assert "/run/iostats-collector.pid" == config.find_state_path(Config(), "collector.pid_file")
    assert ["/run"] == asked


def test_a_home_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(config.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(config.os, "access", lambda path, mode: False)
    with pytest.raises(StateError) as error:
        config.find_state_path(Config(), "collector.state_dir")
    assert (f"{tmp_path}/file/iostats: cannot be made: Not a directory; name another directory in "
            f"site.cfg: [collector] state_dir") == str(error.value)


@pytest.mark.parametrize("host", ["mgmt1:99999", "mgmt1:x", "mgmt1, :19990", "[fd00::5]x"])
def test_a_host_that_is_none_is_an_error_of_its_line(tmp_path, host):
    """In each command that reads site.cfg, also where it asks no server: reports would wait."""
    path = write(tmp_path / "site.cfg", f"[site]\nhost = {host}\n")
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert f"{path}:2: [site] host: expected HOST or HOST:PORT, got {host!r}" == str(caught.value)
