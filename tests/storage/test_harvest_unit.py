"""
The agent's unit of systemd: what `make install-harvest` puts where, and what the unit allows.
"""
from __future__ import annotations

import subprocess
import sys

import pytest
from harvest_desk import OST, StorageDesk, a_job, shown
from processes import REPOSITORY
from test_reader_client import allowed_system_calls, options_of, tool

UNIT = "etc/systemd/system/iostats-harvest.service"


DESK = StorageDesk


@pytest.fixture
def installed(tmp_path):
    """Where `make install-harvest` put everything."""
    directory = tmp_path / "installed"
    done = subprocess.run(["make", "-s", "install-harvest", f"DESTDIR={directory}",
                           f"UNIT_PYTHON={sys.executable}"], cwd=REPOSITORY, text=True,
                          capture_output=True)
    assert ("", 0) == (done.stderr, done.returncode)
    assert ("  name the site's server: [site] host in /etc/iostats/site.cfg (a copy of the\n"
            "    site's own has it), or:\n"
            "      make install-harvest SITE=HOST\n"
            "  enable the unit in the image:\n"
            f"      systemctl --root={directory} enable iostats-harvest.service\n"
            "  or on the host that runs it:\n"
            "      systemctl daemon-reload; systemctl enable --now iostats-harvest.service\n"
            "  copy the site's /etc/iostats/site.secret, readable by root only (0600)\n"
            ) == done.stdout.partition("left to do:\n")[2]
    return directory


def test_what_is_installed_runs_and_is_removed_again(installed, desk):
    """The unit's command, with a desk's site.cfg and directories."""
    site = desk.site()
    desk.show([a_job(0)])
    [command] = options_of(installed / UNIT)["ExecStart"]
    assert f"{sys.executable} -I -S /usr/local/lib/iostats/iostats_client.py harvest" == command
    words = command.replace("/usr/local", str(installed / "usr/local")).split()
    subprocess.run([*words, "--once", "--root", desk.root, "--config", desk.write_config()],
                   check=True)
    assert {OST: shown([a_job(0)])} == site.entries()
    subprocess.run(["make", "-s", "uninstall", f"DESTDIR={installed}"], cwd=REPOSITORY, check=True,
                   capture_output=True)
    assert [] == [path for path in installed.rglob("*") if path.is_file()]


def test_the_unit_is_what_systemd_understands_and_leaves_little_open(installed):
    """`systemd-analyze security` says 1.8 (10 is the worst); the threshold is in tenths."""
    copy = installed / "iostats-harvest.service"
    copy.write_text((installed / UNIT).read_text().replace("/usr/local", f"{installed}/usr/local"))
    done = subprocess.run([tool("systemd-analyze"), "verify", copy], capture_output=True, text=True)
    assert ("", 0) == (done.stdout + done.stderr, done.returncode)
    lnetctl = [str(installed / UNIT).replace("harvest.service", f"lnetctl.{kind}")
               for kind in ("service", "timer")]
    done = subprocess.run([tool("systemd-analyze"), "verify", *lnetctl], capture_output=True,
                          text=True)
    assert ("", 0) == (done.stdout + done.stderr, done.returncode)
    done = subprocess.run([tool("systemd-analyze"), "security", "--offline=yes", "--threshold=25",
                           installed / UNIT], capture_output=True, text=True)
    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.strace
def test_the_agent_makes_no_system_call_that_its_unit_forbids(desk, installed):
    """But for nice(2), which the unit has done; the agent does without."""
    site = desk.site()
    desk.show([a_job(0)])
    log = desk.directory / "strace.log"
    done = desk.once(before=[tool("strace"), "-f", "-qq", "-o", str(log)])
    assert 0 == done.status and site.messages
    made = {line.split("(")[0].split()[-1] for line in log.read_text().splitlines()
            if "(" in line and not line.split()[1].startswith(("<", "+", "-"))}
    allowed = allowed_system_calls(options_of(installed / UNIT)["SystemCallFilter"])
    assert {"openat", "flock", "connect"} <= made
    assert {"setpriority", "getpriority", "nice"} >= made - allowed
