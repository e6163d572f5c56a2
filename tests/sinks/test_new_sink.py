"""
Adding a sink is adding a file: here one is added to a copy of the package.
"""
from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from processes import until
from site_desk import SiteDesk
from storage import StorageServer, moved
from trees import ROOT

A_SINK = '''\
"""
A text file: a line for each sweep.
"""

from iostats.base.option_kinds import Section, number_option, option, path_option

NAME = "sweeplog"
ABOUT = "A text file: a line for each sweep"
IMPORTS = ""
REQUIRES = ()
NUMBERS = (("iostats_sweeplog_lines", "counter", "Lines that were written."),)


class SweeplogSection(Section):
    path = option("", str, "a file", "The file that gets the lines.  Empty: none.")
    most_lines = number_option(1, 100, 23, "How many lines the file has.")
    beside = path_option("/var/lib/iostats/sweeplog", "a directory", "Where it is kept.")


SECTION = SweeplogSection


def is_on(config):
    return bool(config.find_section(SECTION).path)


def make(config, say, clock):
    return SweepLog(config.find_section(SECTION).path)


class SweepLog:
    connections = 0

    def __init__(self, path):
        self.file = open(path, "a")

    def sweep(self, sweep, harvest):
        ids = sorted({job for target in harvest.targets.values() for job in target.ids()})
        print(*ids, file=self.file, flush=True)

    def drop_ids(self, ids):
        pass

    def numbers(self):
        return []

    def close(self):
        print("closed", file=self.file, flush=True)
        self.file.close()
'''


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of what the repository has, with one more file."""
    home = tmp_path_factory.mktemp("copy")
    for name in ("iostats", "iostats_ldms", "tools", "docs", "benchmarks", "packaging"):
        shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("site.cfg", "README.md", "iostats_client.py", "pyproject.toml"):
        shutil.copy(ROOT / name, home / name)
    (home / "iostats" / "sinks" / "sweeplog.py").write_text(A_SINK)
    return home


def run(home, *arguments):
    """Run this Python in the copy; the CompletedProcess."""
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=home, text=True,
                          capture_output=True, env={"PYTHONPATH": str(home), "HOME": "/nowhere"})


def test_config_check_lists_its_options(copy, tmp_path):
    """And where each value comes from."""
    (tmp_path / "site.cfg").write_text("[sweeplog]\nmost_lines = 37\n")
    done = run(copy, "-m", "iostats", "config", "--check", "--config", tmp_path / "site.cfg")
    assert (0, "") == (done.returncode, done.stderr)
    lines = done.stdout.partition("[sweeplog]\n")[2].splitlines()[:3]
    assert [f"most_lines = 37{' ' * 45} # {tmp_path}/site.cfg:2",
            f"path ={' ' * 54} # the default"] == sorted(lines)[1:]


def test_config_check_finds_a_mistake_in_its_section(copy, tmp_path):
    """By the module's own checks."""
    (tmp_path / "site.cfg").write_text("[sweeplog]\nmost_lines = 101\n")
    done = run(copy, "-m", "iostats", "config", "--check", "--config", tmp_path / "site.cfg")
    assert (2, "") == (done.returncode, done.stdout)
    assert (f"iostats: {tmp_path}/site.cfg:2: [sweeplog] most_lines: expected a number from 1 to "
            f"100, got '101'\n") == done.stderr


def test_site_cfg_and_the_documents_are_made_with_it(copy):
    """By the tool that makes them."""
    done = run(copy, "tools/docs.py")
    assert (0, "", {f"{name}: written" for name in (
        "docs/how-to/sinks.md", "docs/reference/site_cfg.md", "site.cfg")}) == (
        done.returncode, done.stderr, set(done.stdout.splitlines()))
    assert ("[sweeplog]\n\n# The file that gets the lines.  Empty: none.\n#path =\n\n"
) in (copy / "site.cfg").read_text()
    reference = (copy / "docs/reference/site_cfg.md").read_text()
    assert ("\n| `most_lines` | `23` | a number from 1 to 100 | How many lines the file has. |\n"
            in reference.partition("\n## [sweeplog]\n")[2])
    text = (copy / "docs" / "how-to" / "sinks.md").read_text()
    assert "| `[sweeplog]` | A text file: a line for each sweep |  |\n" in text
    assert "| `iostats_sweeplog_lines_total` |  | Lines that were written. |\n" in text


def test_a_running_site_server_feeds_it(copy, tmp_path):
    """A real server and a real agent; what the environment says is in force, too."""
    desk, path = SiteDesk(tmp_path), tmp_path / "sweeps.txt"
    try:
        desk.configure(harvest_interval=1)
        site = desk.site(env={"PYTHONPATH": str(copy), "IOSTATS_SWEEPLOG_PATH": str(path)})
        storage_server = StorageServer(desk, "oss1")
        storage_server.show("OST0000", {"4711": moved(41_003), "4713": moved(37)})
        agent = storage_server.agent()
        until(lambda: "4711 4713\n" in path.read_text(), what="a line")
        agent.terminate()
        agent.communicate()
        assert 0 == site.stop().status
        assert path.read_text().endswith("closed\n")
    finally:
        desk.close()


def test_a_node_with_the_same_site_cfg_does_not_look_at_it(copy, tmp_path):
    """Not even at a mistake: that is for the site's server to find, and no job's start fails."""
    (tmp_path / "site.cfg").write_text("[sweeplog]\nmost_lines = 101\n")
    done = run(copy, "-I", "-S", "iostats_client.py", "show", "--root", tmp_path, "--config",
               tmp_path / "site.cfg")
    assert (0, "") == (done.returncode, done.stderr)


def test_a_section_of_no_sink_is_found_by_config_check(copy, tmp_path):
    """gains is a module that sinks share, and no sink."""
    (tmp_path / "site.cfg").write_text("[gains]\npath = /tmp\n")
    done = run(copy, "-m", "iostats", "config", "--check", "--config", tmp_path / "site.cfg")
    assert (f"iostats: {tmp_path}/site.cfg:2: expected one of the sections node server batch run "
            "site harvest events clients collector etcd ldms web secret report findings ganglia "
            "influxdb prometheus sweeplog syslog labels finding_text relay relay_from, got "
            "'[gains]'\n") == done.stderr
