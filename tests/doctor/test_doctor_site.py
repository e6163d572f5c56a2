"""
`iostats doctor` on the hosts of a site: where facts of jobs come from, prologs' directory, and
whether users may read their own records.  From outside: processes and small trees.
"""
from __future__ import annotations

import os
import shutil
import time

import pytest
from processes import BEFORE, Desk, free_port, until
from relay_desk import RelaySite
from site_desk import SiteDesk, script

from iostats.base import config as site_config
from iostats.doctor import site

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: prologs are root's")
SQUEUE, SACCT = '#!/bin/sh\necho \'{"jobs": []}\'\n', "#!/bin/sh\nexit 0\n"


@pytest.fixture
def desk(tmp_path):
    with Desk(tmp_path) as made:
        made.bin = tmp_path / "bin"
        made.bin.mkdir()
        yield made


def checks_of(desk, **choices):
    """{name: (state, text, fix)} outside of a job, with these choices in force."""
    config = desk.directory / "site.cfg"
    sections = {}
    for name, value in choices.items():
        section, _, key = name.partition("_")
        sections.setdefault(section, []).append(f"{key} = {value}\n")
    config.write_text("".join(f"[{name}]\n{''.join(lines)}" for name, lines in sections.items()))
    done = desk.client("doctor", "--json", "--config", config, "--root", desk.tree(**BEFORE),
                       job=False, env={"PATH": f"{desk.bin}:/usr/bin-of-nobody"})
    assert "" == done.err
    return {one["name"]: (one["state"], one["text"], one["fix"] or one["check"])
            for one in done.record["checks"]}


# -- the batch system ------------------------------------------------------------------------------

def test_a_host_without_a_job_says_where_facts_of_jobs_come_from(desk):
    """The management host is such a one, and its server asks."""
    script(desk.bin / "squeue", SQUEUE)
    script(desk.bin / "sacct", SACCT)
    assert ("ok", "slurm; job facts come from squeue --json; of older ones from sacct", ""
            ) == checks_of(desk)["batch system"]


def test_a_controller_that_does_not_answer_is_named(desk):
    """`squeue --version` would have been fine."""
    script(desk.bin / "squeue", "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n"
           "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2\nexit 1\n")
    state, text, _ = checks_of(desk)["batch system"]
    assert "note" == state and text.startswith("slurm; job details unavailable: squeue ")
    assert "Unable to contact slurm controller" in text


def test_a_controller_that_never_answers_is_one_plain_line(desk):
    """No command line of ours, and no Python source."""
    script(desk.bin / "squeue", "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n"
           f"exec {shutil.which('sleep')} 60\n")
    assert ("note", "slurm; job details unavailable: the commands of slurm: expected an answer "
            "within 10 s, got none; is the batch system up?", ""
            ) == checks_of(desk)["batch system"]


def test_without_a_batch_system_there_is_no_line(desk):
    assert "batch system" not in checks_of(desk)


# -- the site's server -----------------------------------------------------------------------------

@as_root
@pytest.mark.parametrize("host, said, fix", [
    ("127.0.0.1", "Connection refused", "systemctl start iostats-site.service"),
    ("localhost", "Connection refused", "systemctl start iostats-site.service"),
    ("no-host.invalid", "([site] host)", "iostats config --check"),
    ("255.255.255.255", "Network is unreachable", "ping -c 3 255.255.255.255")])
def test_a_server_that_is_not_reached_is_started_where_it_runs(desk, host, said, fix):
    """And one whose name is not known, or whose host the network does not reach, is not."""
    path = desk.directory / "site.secret"
    path.write_text("0" * 64)
    path.chmod(0o600)
    port = free_port()
    state, text, told = checks_of(desk, site_host=host, site_port=port, site_secret=path)["site"]
    assert ("problem", fix) == (state, told)
    assert text.startswith(f"{host}:{port}: ") and text.endswith(said)


@pytest.mark.parametrize("auth, mode, found", [
    ("munge secret", 0o644, True), ("munge secret", 0o640, True), ("munge secret", 0o600, False),
    ("munge", 0o644, False)])
def test_a_secret_that_others_can_read_is_found_also_where_munge_does_without_it(
        desk, auth, mode, found):
    """The site's server believes whoever has it."""
    path = desk.directory / "site.secret"
    path.write_text("0" * 64)
    path.chmod(mode)
    checks = checks_of(desk, server_auth=auth, site_secret=path)
    assert found == ("site secret" in checks)
    if found:
        assert ("problem", f"{path}: expected mode 0600, got {mode:04o}: a user who has read it "
                f"can forge reports, until the site has a new one", f"chmod 600 {path}") == (
                    checks["site secret"])


@as_root
@pytest.mark.parametrize("auth, owner, found", [
    ("secret", 4711, True), ("munge secret", 4711, True), ("munge", 4711, False),
    ("munge secret", 0, False)])
def test_a_secret_that_belongs_to_another_user_is_found(desk, auth, owner, found):
    """Whose mode is 0600, so that it is used."""
    path = desk.directory / "site.secret"
    path.write_text("0" * 64)
    path.chmod(0o600)
    os.chown(path, owner, owner)
    assert found == (("note", f"{path}: belongs to user 4711, who can read all records and forge "
                      f"reports; expected root, or the user of the site's server",
                      f"chown root {path}")
                     == checks_of(desk, server_auth=auth, site_secret=path).get("site secret"))


@pytest.mark.parametrize("host, fix", [("mgmt1", "ssh mgmt1 'systemctl start iostats-site'"),
                                       ("nid00023", "systemctl start iostats-site")])
def test_a_command_names_the_host_that_it_is_for(host, fix):
    assert fix == site.command_on(host, "nid00023", "systemctl start iostats-site")


# -- prologs' directory ----------------------------------------------------------------------------

@as_root
def test_prologs_directory_before_the_first_prolog(desk):
    directory = desk.directory / "hooks"
    assert ("note", f"{directory}: not there yet: no prolog has run on this host", "") == checks_of(
        desk, node_hook_dir=directory, site_host="127.0.0.1")["hook_dir"]
    assert "hook_dir" not in checks_of(desk, node_hook_dir=directory)


@as_root
def test_prologs_directory_that_is_not_roots_alone_is_named_by_its_key(desk):
    """Not as --state-dir, which prologs do not have."""
    directory = desk.directory / "hooks"
    directory.mkdir()
    directory.chmod(0o755)
    state, text, fix = checks_of(desk, node_hook_dir=directory)["hook_dir"]
    assert ("problem", f"chmod 700 {directory}") == (state, fix)
    assert f"{directory}: expected a directory of user 0 with mode 0700" in text
    assert text.endswith("name another in site.cfg: [node] hook_dir")
    done = desk.client("prolog", "--config", desk.directory / "site.cfg", "--job", "4711",
                       "--root", desk.directory / "node", job=False)
    assert "[node] hook_dir" in done.err and "--state-dir" not in done.err


@as_root
def test_reports_that_wait_are_told_and_those_that_were_refused(desk):
    directory = desk.directory / "hooks"
    directory.mkdir(0o700)
    assert ("ok", f"{directory}: no reports wait", "") == checks_of(
        desk, node_hook_dir=directory)["hook_dir"]
    for name in ("a.delta", "b.delta", "c.delta.refused"):
        (directory / name).write_text("{}")
    assert ("note", f"{directory}: 2 reports wait, 1 was refused and put aside (*.refused)",
            "iostats_client.py deliver") == checks_of(desk, node_hook_dir=directory)["hook_dir"]


# -- the site's server -----------------------------------------------------------------------------

@as_root
@pytest.mark.parametrize("ahead_s, state", [(23, "ok"), (-23, "ok"), (137, "problem"),
                                            (-4711, "problem")])
def test_a_host_whose_clock_is_not_that_of_the_sites_server(tmp_path, monkeypatch, ahead_s, state):
    """Nodes and storage servers alike; the clock of this process stands for the host's."""
    with SiteDesk(tmp_path) as desk:
        desk.site()
        here = site_config.load(str(desk.cfg), environ={})
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + ahead_s)
        checks = {one.name: one for one in site.examine(here, "nid00001")}
    assert "ok" == checks["site"].state
    found = checks["site clock"]
    seconds, rest = found.text.split(maxsplit=1)
    assert (state, f"s {'ahead of' if ahead_s > 0 else 'behind'} the server's") == (
        found.state, rest)
    assert abs(abs(ahead_s) - float(seconds)) < 20
    assert ("chronyc makestep" if state == "problem" else "") == found.fix


# -- relays ----------------------------------------------------------------------------------------

@as_root
def test_a_relay_and_its_cluster_say_what_is_in_the_way(tmp_path):
    """On both servers; what is missing first, then what is wrong, then that all is well."""
    with RelaySite(tmp_path / "alkindi", "alkindi") as alkindi, RelaySite(
            tmp_path / "xe", "xe") as xe:
        alkindi.relays_to(xe, "o2ib2")
        xe.hears(alkindi, "gdata; o2ib2")

        def checks(desk):
            done = desk.client("doctor", "--json", "--config", desk.cfg, "--root",
                               desk.tree(**BEFORE), job=False)
            return {one["name"]: (one["state"], one["text"], one["fix"])
                    for one in done.record["checks"] if "relay" in one["name"]}
        assert {} == checks(alkindi) == checks(xe)              # no server has run there
        alkindi.site(), xe.site()
        there, path = f"127.0.0.1:{xe.port}", xe.secrets / "alkindi.secret"
        state, text, fix = checks(alkindi)["relay to xe"]
        assert ("problem", f"{there}: the server of cluster xe has another secret for relay "
                f"alkindi, or does not know it (site.cfg there: [relay_from])") == (state, text)
        assert fix == (f"scp -p {alkindi.secrets}/xe.secret "
                       f"127.0.0.1:{alkindi.secrets}/alkindi.secret")
        state, text, _ = checks(xe)["relay from alkindi"]
        assert "problem" == state and text.startswith(f"{path}: no secret")
        path.write_bytes(xe.site_secret.read_bytes())
        path.chmod(0o600)
        assert ("problem", f"rm {path}") == checks(xe)["relay from alkindi"][::2]
        alkindi.share_secret(xe)
        assert ("ok", "may speak for gdata", "") == checks(xe)["relay from alkindi"]
        until(lambda: ("ok", f"{there} knows this server as relay alkindi", "") == checks(alkindi)[
            "relay to xe"], what="a look at the file")


@as_root
def test_an_lnet_of_which_no_client_is_known_is_told(tmp_path):
    """It may be mistyped; one that has clients has no line."""
    with RelaySite(tmp_path / "alkindi", "alkindi") as alkindi, RelaySite(
            tmp_path / "xe", "xe") as xe:
        alkindi.relays_to(xe, "o2ib2 o2ib23")
        alkindi.hears(xe, "home; tcp")
        alkindi.site()
        alkindi.clients("oss1", "gdata", {"10.9.0.11@o2ib2": (23, 37, 1, 2, 3, 41),
                                          "10.5.0.23@tcp5": (0, 0, 0, 0, 0, 1)})
        done = alkindi.client("doctor", "--json", "--config", alkindi.cfg, "--root",
                              alkindi.tree(**BEFORE), job=False)
        found = {one["name"]: (one["state"], one["text"]) for one in done.record["checks"]
                 if " LNet " in one["text"]}
        ends = "is it the one of `lctl list_nids` on the cluster's nodes?"
        assert found == {
            "relay to xe, o2ib23": ("note", f"no client of gdata is known in LNet o2ib23, only in "
                                            f"o2ib2, tcp5: {ends}"),
            "relay from xe, tcp": ("note", f"no client of home is known in LNet tcp: {ends}")}


def test_a_mistake_in_relay_is_told_by_the_doctor(desk):
    """With the command that shows all of them."""
    assert "problem" == checks_of(desk, relay_o2ib2="xepbs")["relay"][0]
