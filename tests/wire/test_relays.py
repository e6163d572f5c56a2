"""
[relay] and [relay_from]: who is told what, and who may speak for what; a mistake in one line.
"""

import pytest

from iostats.base.config import load
from iostats.base.errors import ConfigError
from iostats.cli import config as config_command
from iostats.lustre.nids import find_lnet, parse_network_name
from iostats.wire import relays


@pytest.fixture
def configured(tmp_path):
    """A function: text of site.cfg -> its Config."""
    def make(text):
        path = tmp_path / "site.cfg"
        path.write_text(text)
        return load(str(path), {})
    return make


# -- LNets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [
    ("o2ib", "o2ib"), ("o2ib0", "o2ib"), ("o2ib00", "o2ib"), ("o2ib2", "o2ib2"),
    ("o2ib23", "o2ib23"), ("tcp", "tcp"), ("tcp0", "tcp"), ("tcp102", "tcp102"),
    ("bxi3f4", "bxi3f4"), ("tcp65535", "tcp65535"), ("tcp65536", None), ("", None), ("2", None),
    ("O2IB", None), ("o2ib-2", None), ("10.9.0.1@tcp", None), ("tcp\n", None)])
def test_a_network_is_called_as_lustre_prints_it(text, expected):
    """Number 0 is not printed."""
    assert parse_network_name(text) == expected


def test_a_nids_network_is_behind_its_last_at():
    """IPv6 has colons."""
    assert [find_lnet(nid) for nid in ("10.9.0.11@o2ib2", "fd00::5@tcp0", "0@lo", "o2ib2", "@tcp",
                                       "a@b@tcp5")] == ["o2ib2", "tcp", "lo", None, None, "tcp5"]


@pytest.mark.parametrize("text", [
    "tcp", "tcp5", "o2ib2", "gni", "gni99", "kfi", "efa3", "bxi3f", "bxi3f4", "gip", "ptlf", "mx2"])
def test_networks_of_all_types_that_lustre_has_can_be_relayed(configured, text):
    """libcfs_netstrfns[], 2.5 to 2.17."""
    [one] = relays.list_destinations(configured(f"[relay]\n{text} = xepbs xe\n"))
    assert one.lnets == {text: frozenset()}


# -- [relay] ---------------------------------------------------------------------------------


def test_lnets_clusters_and_file_systems_of_relay(configured):
    """Several LNets of one cluster, an LNet of several clusters, file systems of some."""
    config = configured("[site]\nrelay_secrets = /etc/other\nport = 2323\n[relay]\n"
                        "o2ib2 = xepbs:19991 xe\ntcp5 o2ib0 = vu-man4 vu gdata home, dcchead dcc\n"
                        "tcp7 = xepbs:19991 xe gdata\n")
    xe, vu, dcc = relays.list_destinations(config)
    assert xe == ("xe", "xepbs", 19991, {"o2ib2": frozenset(), "tcp7": frozenset({"gdata"})},
                  "/etc/other/xe.secret")
    assert vu == ("vu", "vu-man4", 2323, {"tcp5": {"gdata", "home"}, "o2ib": {"gdata", "home"}},
                  "/etc/other/vu.secret")
    assert dcc.lnets == {"tcp5": frozenset(), "o2ib": frozenset()}


@pytest.mark.parametrize(("line", "message"), [
    ("O2IB = xepbs xe", "expected LNets such as o2ib2 or tcp, as in the NIDs of a cluster's nodes "
                        "(lctl list_nids), got 'O2IB'"),
    ("lo = xepbs xe", "expected LNets such as o2ib2 or tcp, as in the NIDs of a cluster's nodes "
                      "(lctl list_nids), got 'lo'"),
    ("nonsense = xepbs xe", "expected LNets such as o2ib2 or tcp, as in the NIDs of a cluster's "
                            "nodes (lctl list_nids), got 'nonsense'"),
    ("o2ib2 tpc5 = xepbs xe", "expected LNets such as o2ib2 or tcp, as in the NIDs of a cluster's "
                              "nodes (lctl list_nids), got 'tpc5'"),
    ("o2ib2 = xepbs", "expected HOST:PORT CLUSTER, such as xepbs:19990 xe, and a comma before "
                      "another one, got 'xepbs'"),
    ("o2ib2 =", "expected HOST:PORT CLUSTER, such as xepbs:19990 xe, and a comma before another "
                "one, got ''"),
    ("o2ib2 = xepbs ../x", "expected HOST:PORT CLUSTER, such as xepbs:19990 xe, and a comma before "
                           "another one, got 'xepbs ../x'"),
    ("o2ib2 = xepbs:0 xe", "expected HOST or HOST:PORT, got 'xepbs:0'"),
    ("o2ib2 = xepbs xe g/data", "expected names of file systems behind the cluster, or none for "
                                "all, got 'g/data'"),
    ("o2ib2 = xepbs xe, xeold xe", "expected one server of cluster xe, got xeold:19990 beside "
                                   "xepbs:19990"),
    ("o2ib o2ib0 = xepbs xe", "o2ib of cluster xe is set already; remove one"),
])
def test_a_mistake_in_relay_is_told_with_its_line(configured, line, message):
    """File, line, section, key, what was expected, what was there."""
    with pytest.raises(ConfigError) as error:
        relays.list_destinations(configured(f"[relay]\n{line}\n"))
    key = line.partition("=")[0].strip()
    assert str(error.value).endswith(f"site.cfg:2: [relay] {key}: {message}")


# -- [relay_from] ----------------------------------------------------------------------------


def test_who_may_speak_of_which_clients(configured):
    """LNets and globs of NIDs; 0 of an LNet is not printed."""
    [one] = relays.list_sources(configured(
        "[relay_from]\nalkindi = gdata home; o2ib2 tcp0 10.9.*@tcp5\n")).values()
    assert (one.name, one.file_systems, one.secret) == (
        "alkindi", {"gdata", "home"}, "/etc/iostats/relay/alkindi.secret")
    assert [nid for nid in ("10.1.0.7@o2ib2", "10.1.0.7@o2ib", "10.1.0.7@tcp", "10.1.0.7@tcp5",
                            "10.9.0.7@tcp5", "10.9.0.7@tcp50", "110.9.0.7@tcp5", "0@lo",
                            "10.1.0.7@o2ib23") if one.may_report(nid)] == [
        "10.1.0.7@o2ib2", "10.1.0.7@tcp", "10.9.0.7@tcp5"]


@pytest.mark.parametrize(("lines", "message"), [
    ("al/kindi = gdata; o2ib2", "[relay_from] al/kindi: expected the relay's name ([site] "
                                "relay_name there): letters, digits, - and _"),
    ("alkindi = gdata o2ib2", "[relay_from] alkindi: expected file systems, a semicolon, and LNets "
                              "or NIDs, such as gdata home; o2ib2 10.9.*@tcp5, got 'gdata o2ib2'"),
    ("alkindi = ; o2ib2", "[relay_from] alkindi: expected file systems, a semicolon, and LNets or "
                          "NIDs, such as gdata home; o2ib2 10.9.*@tcp5, got '; o2ib2'"),
    ("alkindi = g/data; o2ib2", "[relay_from] alkindi: expected names of file systems before the "
                                "semicolon, got 'g/data'"),
    ("alkindi = gdata; node-1", "[relay_from] alkindi: expected LNets (o2ib2) or NIDs "
                               "(10.9.*@o2ib2) behind the semicolon, got 'node-1'"),
    ("alkindi = gdata; banana", "[relay_from] alkindi: expected LNets (o2ib2) or NIDs "
                                "(10.9.*@o2ib2) behind the semicolon, got 'banana'"),
    ("alkindi = gdata; tcp 10.9.*@o3ib", "[relay_from] alkindi: expected LNets (o2ib2) or NIDs "
                                         "(10.9.*@o2ib2) behind the semicolon, got '10.9.*@o3ib'"),
    ("alkindi = gdata; @tcp", "[relay_from] alkindi: expected LNets (o2ib2) or NIDs "
                              "(10.9.*@o2ib2) behind the semicolon, got '@tcp'"),
    ("alkindi = gdata; *@lo", "[relay_from] alkindi: expected LNets (o2ib2) or NIDs "
                              "(10.9.*@o2ib2) behind the semicolon, got '*@lo'"),
    ("other = gdata; tcp5\nalkindi = home gdata; o2ib2",
     "[relay_from] alkindi: gdata is relayed by other already: from two relays it would count "
     "twice; remove one"),
])
def test_a_mistake_in_relay_from_is_told_with_its_line(configured, lines, message):
    """And a file system has one relay."""
    with pytest.raises(ConfigError) as error:
        relays.list_sources(configured(f"[relay_from]\n{lines}\n"))
    assert str(error.value).endswith(f"site.cfg:{2 + lines.count(chr(10))}: {message}")


# -- names, and the command -------------------------------------------------------------------


def test_a_relays_own_name(configured, monkeypatch):
    """That of the host without its domain, unless site.cfg has another."""
    monkeypatch.setattr(relays.os, "uname", lambda: type("U", (), {"nodename": "alk.site.org"}))
    assert relays.get_own_relay_name(configured("")) == "alk"
    assert relays.get_own_relay_name(configured("[site]\nrelay_name = alkindi\n")) == "alkindi"
    with pytest.raises(ConfigError, match=r"site.cfg:2: \[site\] relay_name: expected letters, "
                                          r"digits, - and _, got 'al kindi'"):
        relays.get_own_relay_name(configured("[site]\nrelay_name = al kindi\n"))


def test_iostats_config_shows_and_checks_both_sections(tmp_path, capsys):
    """--check with where each line is from; 2 for a mistake."""
    path = tmp_path / "site.cfg"
    path.write_text("[relay]\no2ib2 = xepbs:19990 xe\n[relay_from]\nother = home; tcp5\n")
    assert config_command.main(["--check", "--config", str(path)]) == 0
    lines = [line.split(" #")[0].rstrip() for line in capsys.readouterr().out.splitlines()]
    at = lines.index("[relay]")
    assert lines[at:at + 4] == ["[relay]", "o2ib2 = xepbs:19990 xe", "[relay_from]",
                                "other = home; tcp5"]
    path.write_text("[relay]\no2ib2 = xepbs:19990\n")
    assert config_command.main(["--config", str(path)]) == 2
    assert f"{path}:2: [relay] o2ib2: expected HOST:PORT CLUSTER" in capsys.readouterr().err
