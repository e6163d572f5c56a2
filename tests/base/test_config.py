"""
site.cfg: four places, the later one wins, and every mistake is told in one line.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import ROOT

from iostats.base import config
from iostats.base.config import Config, load
from iostats.base.errors import ConfigError, StateError
from iostats.base.options import FREE_SECTIONS, OPTIONS, RENAMED, SECTIONS
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


# -- defaults ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIONS)
def test_every_default_is_itself_a_choice_that_is_allowed(name):
    """A default that its own check refuses would stop every command."""
    option = OPTIONS[name]
    choices = Config()
    choices.take(name, option.default, "the test")
    assert choices[name] == Config()[name]
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
    assert (20000, 29999, 60.0, "grid", "binary", []) == tuple(choices[name] for name in (
        "server.port_first", "server.port_last", "server.deadline", "report.format",
        "report.units", "report.columns"))
    assert {"the default"} == set(choices.origin.values())
    assert {} == choices.labels


# -- which one wins ----------------------------------------------------------------------


def test_the_later_place_wins_and_each_value_knows_where_it_came_from(nobody, tmp_path):
    """System's file < user's own < environment < command line; what one does not say stays."""
    system = write(tmp_path / "beside.cfg", "[server]\nport_first = 10023\nport_last = 10037\n"
                                            "deadline = 41\nidle_timeout = 43\n")
    user = write(tmp_path / ".iostats" / "site.cfg", "[server]\nport_last = 10047\ndeadline = 53\n")
    choices = load(environ={**nobody, "IOSTATS_SERVER_DEADLINE": "59"})
    choices.take("server.idle_timeout", "61", "--idle-timeout")
    assert (10023, 10047, 59.0, 61.0) == tuple(choices[f"server.{key}"] for key in (
        "port_first", "port_last", "deadline", "idle_timeout"))
    assert (f"{system}:2", f"{user}:2", "environment: IOSTATS_SERVER_DEADLINE", "--idle-timeout",
            "the default") == tuple(choices.origin[f"server.{key}"] for key in (
                "port_first", "port_last", "deadline", "idle_timeout", "max_nodes"))


def test_config_stands_for_both_files(nobody, tmp_path):
    """--config FILE: neither the system's nor the user's file is read then."""
    write(tmp_path / "beside.cfg", "[server]\ndeadline = 41\n")
    write(tmp_path / ".iostats" / "site.cfg", "[server]\nidle_timeout = 43\n")
    path = write(tmp_path / "mine.cfg", "[report]\nunits = decimal\n")
    choices = load(path, nobody)
    assert ("decimal", 60.0, 10.0) == (choices["report.units"], choices["server.deadline"],
                                       choices["server.idle_timeout"])


def test_labels_of_both_files_are_known(nobody, tmp_path):
    """The user's own name for a file system wins over the site's."""
    write(tmp_path / "beside.cfg", "[labels]\nsnx11001 = BW Home\nsnx11002 = BW Projects\n")
    write(tmp_path / ".iostats" / "site.cfg", "[labels]\nsnx11002 = mine\n")
    assert {"snx11001": "BW Home", "snx11002": "mine"} == load(environ=nobody).labels


@pytest.mark.parametrize("home", ["", "relative/path", "/nowhere/at/all"])
def test_a_home_that_is_not_there_is_no_mistake(nobody, home):
    """Prologs run without HOME, or before it is mounted."""
    assert 60.0 == load(environ={"HOME": home})["server.deadline"]


# -- keys that were renamed --------------------------------------------------------------

RENAMED_KEYS = [
    ("node", "try_for", "retry_timeout", "23", 23.0),
    ("node", "hook_within", "hook_timeout", "0.7", 0.7),
    ("server", "silence", "idle_timeout", "37", 37.0),
    ("run", "start_within", "start_timeout", "41", 41.0),
    ("harvest", "every", "interval", "43", 43),
    ("node", "mdc_path", "file_systems", "/proc/fs/lustre/llite/snx1100*", ["snx1100*"]),
    ("node", "osc_path", "file_systems", "/proc/fs/lustre/osc/snx11001-OST*", ["snx11001"]),
]


def test_the_table_of_these_tests_has_every_renamed_key():
    """A key that is renamed later gets its row here."""
    assert set(RENAMED) == {f"{section}.{old}" for section, old, *_ in RENAMED_KEYS}
    assert {f"{section}.{new}" for section, _, new, *_ in RENAMED_KEYS} <= set(OPTIONS)
    assert set() == set(RENAMED) & set(OPTIONS)


@pytest.mark.parametrize("section, old, new, text, value", RENAMED_KEYS)
def test_an_old_key_of_a_file_is_accepted_and_a_note_names_the_new_one(
        tmp_path, section, old, new, text, value):
    """A site.cfg of an earlier release does what it did."""
    path = write(tmp_path / "site.cfg", f"[{section}]\n{old} = {text}\n")
    choices = load(path, {})
    assert (value, f"{path}:2") == (choices[f"{section}.{new}"], choices.origin[f"{section}.{new}"])
    [note] = choices.notes
    written = " ".join(value) if isinstance(value, list) else text
    assert f"{path}:2: [{section}] {old} is an old key: write {new} = {written}" == note


@pytest.mark.parametrize("section, old, new, text, value", RENAMED_KEYS)
def test_an_old_variable_is_accepted_and_a_note_names_the_new_key(
        nobody, section, old, new, text, value):
    """Job scripts and units set them."""
    variable = f"IOSTATS_{section}_{old}".upper()
    choices = load(environ={**nobody, variable: text})
    assert (value, f"environment: {variable}") == (
        choices[f"{section}.{new}"], choices.origin[f"{section}.{new}"])
    [note] = choices.notes
    assert note.startswith(f"environment: {variable}: [{section}] {old} is an old key: write {new}")


def test_the_new_name_wins_over_the_old_one_of_the_same_place(nobody):
    """Whatever the order in which the environment has them."""
    both = {"IOSTATS_SERVER_IDLE_TIMEOUT": "23", "IOSTATS_SERVER_SILENCE": "37"}
    assert 23.0 == load(environ={**nobody, **both})["server.idle_timeout"]
    assert 23.0 == load(environ={**dict(reversed(both.items())), **nobody})["server.idle_timeout"]


def test_a_later_place_wins_under_its_old_name_too(nobody, tmp_path):
    """A user's own file may be older than the system's."""
    write(tmp_path / "beside.cfg", "[server]\nidle_timeout = 23\n")
    write(tmp_path / ".iostats" / "site.cfg", "[server]\nsilence = 37\n")
    assert 37.0 == load(environ=nobody)["server.idle_timeout"]


@pytest.mark.parametrize("text, message", [
    ("[server]\nsilence = 23\nidle_timeout = 37\n",
     ":3: [server] idle_timeout is set in line 2 already; remove one"),
    ("[server]\nidle_timeout = 23\nsilence = 37\n",
     ":3: [server] silence is set in line 2 already; remove one"),
    ("[server]\nsilence = long\n",
     ":2: [server] silence: expected seconds, from 0 to 10000000, got 'long'"),
], ids=["the old one first", "the new one first", "a bad value"])
def test_a_mistake_with_an_old_key_names_the_key_as_it_is_written(tmp_path, text, message):
    """The line can be found."""
    path = write(tmp_path / "site.cfg", text)
    with pytest.raises(ConfigError) as refusal:
        load(path, {})
    assert path + message == str(refusal.value)


def test_both_old_globs_of_paths_may_be_in_a_file(tmp_path):
    """They were two keys, and an earlier site.cfg has both."""
    path = write(tmp_path / "site.cfg", "[node]\nmdc_path = /proc/fs/lustre/llite/snx*\n"
                                        "osc_path = /proc/fs/lustre/osc/snx*\n")
    assert (["snx*"], 2) == (load(path, {})["node.file_systems"], len(load(path, {}).notes))


def test_iostats_config_prints_the_notes_on_standard_error(tmp_path, capsys):
    """Standard output is the configuration, under its new names."""
    path = write(tmp_path / "site.cfg", "[server]\nsilence = 23\n")
    assert 0 == config_command.main(["--check", "--config", path])
    out, err = capsys.readouterr()
    assert f"iostats: {path}:2: [server] silence is an old key: write idle_timeout = 23\n" == err
    [line] = [line for line in out.splitlines() if line.startswith("idle_timeout")]
    assert ["idle_timeout = 23", f"{path}:2"] == [part.strip() for part in line.split("#")]


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
    assert "login1" == load(write(tmp_path / "site.cfg", text), {})["server.host"]


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
                  "clients collector etcd ldms web secret report advice ganglia influxdb "
                  "prometheus syslog labels advice_text relay relay_from, got '[sever]'"),
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
     ":2: [site] store: expected a file whose path begins with /, got 'site.sqlite'"),
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


# -- the site.cfg that is shipped --------------------------------------------------------


def lines_by_section():
    sections, section = {}, None
    for line in (ROOT / "site.cfg").read_text(encoding="utf-8").splitlines():
        found = re.fullmatch(r"\[(\w+)\]", line)
        section = found[1] if found else section
        sections.setdefault(section, []).append(line)
    return sections


@pytest.mark.parametrize("name", OPTIONS)
def test_site_cfg_shows_every_choice_with_its_default(name):
    """Commented out, under its section: a site takes the "#" away."""
    section, _, key = name.partition(".")
    assert f"#{key} = {OPTIONS[name].default}".rstrip() in lines_by_section()[section]


def test_site_cfg_shows_the_sections_whose_keys_a_site_makes_up():
    """[labels] has no fixed keys, and its help."""
    assert list(FREE_SECTIONS) == [section for section in SECTIONS if section in FREE_SECTIONS]
    assert all(f"# {text}" in lines_by_section()[section]
               for section, text in FREE_SECTIONS.items())


def test_site_cfg_as_it_is_shipped_changes_nothing():
    """It loads without error, and each value is still the default."""
    choices = load(str(ROOT / "site.cfg"), {})
    assert dict(Config()) == dict(choices)
    assert {"the default"} == set(choices.origin.values())


def test_site_cfg_with_every_comment_sign_taken_away_is_still_good(tmp_path):
    """The form shown for each key is the form that is read."""
    text = re.sub(r"(?m)^#(\w+ =)", r"\1", (ROOT / "site.cfg").read_text(encoding="utf-8"))
    assert dict(Config()) == dict(load(write(tmp_path / "site.cfg", text), {}))


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
        choices.take("collector.state_dir", given, "a test")
    assert found.format(home=tmp_path) == config.state_path(choices, "collector.state_dir")


def test_state_is_in_the_default_where_this_user_may_write_there(tmp_path, monkeypatch):
    """As systemd makes it for the unit's user."""
    asked = []
    monkeypatch.setattr(config.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(config.os, "access", lambda path, mode: asked.append(path) or True)
    assert "/run/iostats-collector.pid" == config.state_path(Config(), "collector.pid_file")
    assert ["/run"] == asked


def test_a_home_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(config.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(config.os, "access", lambda path, mode: False)
    with pytest.raises(StateError) as error:
        config.state_path(Config(), "collector.state_dir")
    assert (f"{tmp_path}/file/iostats: cannot be made: Not a directory; name another directory in "
            f"site.cfg: [collector] state_dir") == str(error.value)


@pytest.mark.parametrize("host", ["mgmt1:99999", "mgmt1:x", "mgmt1, :19990", "[fd00::5]x"])
def test_a_host_that_is_none_is_an_error_of_its_line(tmp_path, host):
    """In each command that reads site.cfg, also where it asks no server: reports would wait."""
    path = write(tmp_path / "site.cfg", f"[site]\nhost = {host}\n")
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert f"{path}:2: [site] host: expected HOST or HOST:PORT, got {host!r}" == str(caught.value)
