"""
The Debian and RPM packages: built without a network but for the libraries, installed on a booted
machine, upgraded with data, removed, purged.
"""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from booted import booted, make_wheels, why_not
from processes import AFTER, BEFORE, REPOSITORY, write_tree

from iostats import __version__

PACKAGES = ("common", "libs", "node", "harvest", "collector", "site", "web", "ldms", "client")
ENABLED = ("iostats-site.service", "iostats-deliver.timer", "iostats-reader.socket",
           "iostats-harvest.service", "iostats-collector.service", "iostats-web.service",
           "iostats-ldms.service")
STARTED = ENABLED[:3]
OPTIONAL = "iostats-lnetctl.timer"                      # disabled by default
OF_OUR_SITE = "# the site.cfg of our site\n"
# The root of another Debian release, for `make debian RELEASE=trixie`.
TREE = os.environ.get("IOSTATS_DEBIAN_TREE")

pytestmark = [pytest.mark.root, pytest.mark.systemd, pytest.mark.xdist_group("debian"),
              pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can be booted"),
              pytest.mark.skipif(not shutil.which("dh"), reason="needs Debian's debhelper"),
              pytest.mark.skipif(not shutil.which("rpmbuild"), reason="needs Debian's rpm")]


@pytest.fixture(scope="module")
def debs(tmp_path_factory):
    """{name: path} of the packages, with the libraries of these tests."""
    directory = tmp_path_factory.mktemp("debs")
    build = [REPOSITORY / "packaging/debian/build"]
    if TREE:
        build = [REPOSITORY / "packaging/debian/build_in_tree", TREE]
    else:
        make_wheels(directory / "wheels")
    done = subprocess.run(
        [*build, directory], capture_output=True, text=True,
        env={**{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
             "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
             "DPKG_DEB_COMPRESSOR_TYPE": "none",             # time counts here, size does not
             **({} if TREE else {
                 "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(directory / "wheels"),
                 "PIP_CONSTRAINT": "/dev/null", "UNIT_PYTHON": sys.executable})})
    assert done.returncode == 0, done
    paths = {path.name.split("_")[0].partition("-")[2]: path for path in directory.glob("*.deb")}
    assert set(PACKAGES) == set(paths)
    return paths


@pytest.fixture(scope="module")
def rpms(tmp_path_factory):
    """{name: path} of those for Enterprise Linux 9, without the libraries."""
    directory = tmp_path_factory.mktemp("rpms")
    for command in ([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", directory],
                    [REPOSITORY / "packaging/rpm/build", directory, "el9"]):
        done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY,
                              env={**os.environ, "WITHOUT": "libs", "PYTHON": sys.executable})
        assert done.returncode == 0, done
    paths = {path.name.split("-")[1]: path for path in directory.glob("*.rpm")}
    assert {*PACKAGES} - {"libs"} == set(paths)
    return paths


@pytest.fixture(scope="module")
def machine(tmp_path_factory, debs):
    """All of them installed, behind a site.cfg that was there before."""
    with booted(tmp_path_factory.mktemp("booted")) as computer:
        for path in debs.values():
            computer.put(f"/debs/{path.name}", path.read_bytes())
        computer("rm", "-f", "/usr/sbin/policy-rc.d")       # a container's, against any start
        computer.put("/etc/iostats/site.cfg", OF_OUR_SITE + (REPOSITORY / "site.cfg").read_text())
        computer("sh", "-c", "dpkg -i /debs/*.deb", status=0)
        yield computer


def test_no_package_has_a_file_of_another(debs):
    owners = {}
    for name, path in debs.items():
        for line in subprocess.run(["dpkg-deb", "-c", path], capture_output=True,
                                   text=True).stdout.splitlines():
            if not line.startswith("d"):
                owners.setdefault(line.split()[5], []).append(name)
    assert [] == [(file, names) for file, names in owners.items() if len(names) > 1]
    assert ["common"] == owners["./usr/lib/iostats/site.cfg"]
    assert "./etc/iostats/site.cfg" not in owners      # no conffile: dpkg would ask about it
    assert ["ldms"] == owners["./usr/lib/iostats/iostats_ldms/__init__.py"]


def test_compute_nodes_and_storage_servers_need_no_library(debs):
    for name in ("common", "node", "harvest"):
        depends = subprocess.run(["dpkg-deb", "-f", debs[name], "Depends"], capture_output=True,
                                 text=True).stdout
        assert "libs" not in depends and ("iostats-common" in depends) == (name != "common")


def test_units_are_enabled_and_those_without_configuration_wait_for_it(machine):
    for unit in ENABLED:
        assert "enabled" == machine("systemctl", "is-enabled", unit).out.strip(), unit
    machine.until(lambda: all(machine.is_active(unit) == "active" for unit in STARTED), *STARTED)
    assert {"inactive"} == {machine.is_active(unit)
                            for unit in {*ENABLED, OPTIONAL} - set(STARTED)}
    assert "disabled" == machine("systemctl", "is-enabled", OPTIONAL).out.strip()


def test_a_site_cfg_that_was_there_before_is_kept(machine):
    assert machine.path("/etc/iostats/site.cfg").read_text().startswith(OF_OUR_SITE)


def test_commands_pages_and_completion_are_where_debian_has_them(machine):
    assert f"iostats {__version__}" == " ".join(
        machine("iostats", "--version", status=0).out.split()[:2])
    config = machine.path("/etc/iostats/site.cfg")
    assert (3, "", "iostats: no site server is named ([site] host in site.cfg)\n") == machine(
        "iostats", "jobs")
    config.write_text(config.read_text().replace("#host =", "host = localhost", 1))
    assert machine("iostats", "jobs", "--json", status=0).out.startswith("{")
    for path in ("/usr/share/man/man1/iostats-report.1.gz", "/usr/share/man/man5/site.cfg.5.gz",
                 "/usr/share/bash-completion/completions/iostats",
                 "/usr/lib/iostats/docs/index.md", "/usr/lib/iostats/hooks/slurm_prolog"):
        assert machine.path(path.replace("/usr/lib/iostats/docs",
                                         "/usr/share/doc/iostats-common/docs")).exists(), path
    assert 0o600 == machine.path("/etc/iostats/site.secret").stat().st_mode & 0o777


def test_an_upgrade_keeps_configuration_and_data_and_restarts_servers(machine, debs, tmp_path):
    """Without a question, although both the site and the release have changed site.cfg."""
    secret = machine.path("/etc/iostats/site.secret").read_text()
    config = machine.path("/etc/iostats/site.cfg")
    text = config.read_text().replace("#keep_days = 365", "keep_days = 41", 1)
    config.write_text(text)
    store = machine.path("/var/lib/iostats/site.sqlite")
    machine("systemctl", "start", "iostats-harvest.service", status=0)
    machine("systemctl", "enable", "--now", OPTIONAL, status=0)
    servers = ("iostats-site.service", "iostats-harvest.service")
    before, pids = store.stat().st_ino, [machine.property(unit, "MainPID") for unit in servers]
    for name, path in debs.items():
        subprocess.run(["dpkg-deb", "-R", path, tmp_path / name], check=True)
        control = tmp_path / name / "DEBIAN/control"
        control.write_text(control.read_text().replace(f"Version: {__version__}",
                                                       f"Version: {__version__}+1").replace(
            f"(= {__version__})", f"(= {__version__}+1)"))
        if name == "common":
            with open(tmp_path / name / "usr/lib/iostats/site.cfg", "a", encoding="utf-8") as file:
                file.write("# of a newer release\n")
        subprocess.run(["dpkg-deb", "-Znone", "-b", tmp_path / name, tmp_path / f"{name}.deb"],
                       check=True, stdout=subprocess.DEVNULL)
        machine.put(f"/newer/{name}.deb", (tmp_path / f"{name}.deb").read_bytes())
    machine("sh", "-c", "dpkg -i /newer/*.deb", status=0)
    machine.until(lambda: all(
        machine.is_active(unit) == "active" and machine.property(unit, "MainPID") != pid
        for unit, pid in zip(servers, pids)), *servers)
    assert "inactive" == machine.is_active("iostats-web.service")       # it did not run before
    assert ["enabled", "active"] == [machine("systemctl", verb, OPTIONAL).out.strip()
                                     for verb in ("is-enabled", "is-active")]
    assert (secret, text, before) == (machine.path("/etc/iostats/site.secret").read_text(),
                                      config.read_text(), store.stat().st_ino)


def test_removed_packages_leave_configuration_and_data_and_purged_ones_nothing(machine):
    names = [f"iostats-{name}" for name in PACKAGES]
    machine("dpkg", "--remove", *names, status=0)
    assert not machine.path("/usr/lib/iostats").exists()
    assert not machine.path("/usr/bin/iostats").is_symlink()
    for path in ("/etc/iostats/site.cfg", "/etc/iostats/site.secret",
                 "/var/lib/iostats/site.sqlite"):
        assert machine.path(path).exists()
    assert [] == [unit for unit in (*ENABLED, OPTIONAL) if machine.is_active(unit) == "active"]
    machine("dpkg", "--purge", *names, status=0)
    left = [path for path in machine.files() if "iostats" in path
            and "/dpkg/" not in path and not path.startswith("/etc/systemd")]
    assert [] == left
    assert "" == machine("systemctl", "list-unit-files", "iostats*", "--no-legend").out


def rpm_of(path, *words):
    done = subprocess.run(["rpm", "-qp", *words, path], capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


def test_rpms_have_the_files_of_the_debian_packages(debs, rpms):
    """But for licences, changelogs and compiled modules, and where each system has documents."""
    for name, path in rpms.items():
        files = {line.split()[5].lstrip(".").rstrip("/") for line in subprocess.run(
            ["dpkg-deb", "-c", debs[name]], capture_output=True, text=True).stdout.splitlines()
            if not line.startswith("d")}
        for debian, enterprise in (("/usr/share/doc/iostats-common/docs", "/usr/lib/iostats/docs"),
                                   ("/lib/systemd", "/usr/lib/systemd"),
                                   ("/usr/share/zsh/vendor-completions",
                                    "/usr/share/zsh/site-functions")):
            files = {re.sub(f"^{debian}/", f"{enterprise}/", file) for file in files}
        # A file of rpm's own kind here, and made by a script there.
        files |= {"/etc/iostats/site.cfg"} if name == "common" else set()
        files = {file for file in files if not file.startswith(("/usr/share/doc/",
                                                                "/usr/share/lintian/"))}
        # A link in the Debian package, to documents that all of its packages have in one place.
        files.discard("/usr/lib/iostats/docs")
        ours = {line.split()[0] for line in rpm_of(path, "--qf",
                                                   "[%{FILENAMES} %{FILEMODES:perms}\\n]")
                if " d" not in line and "/licenses/" not in line}
        assert sorted(files) == sorted(ours), name


def test_rpms_name_their_python_and_configuration(rpms):
    assert "/etc/iostats/site.cfg cn" in rpm_of(rpms["common"], "--qf",
                                                "[%{FILENAMES} %{FILEFLAGS:fflags}\n]")
    assert {"/usr/bin/python3", "python3 >= 3.9"} <= set(rpm_of(rpms["common"], "--requires"))
    for name in ("common", "node", "harvest"):
        assert not any("libs" in line for line in rpm_of(rpms[name], "--requires"))
    assert [__version__] * 8 == [line for path in rpms.values()
                                 for line in rpm_of(path, "--qf", "%{VERSION}\n")]


@pytest.mark.parametrize("release, python", [("rhel 8", "3.9"), ("rhel 9", "3"), ("rhel 10", "3"),
                                             ("suse_version 1500", "3.11")])
def test_each_release_has_a_python_of_its_own(release, python):
    spec = REPOSITORY / "packaging/rpm/iostats.spec"
    words = ["--define", release, "--undefine",
             "suse_version" if "rhel" in release else "rhel", "--without", "libs"]
    done = subprocess.run(["rpmspec", "-q", "--requires", *words, spec], capture_output=True,
                          text=True)
    assert done.returncode == 0, done
    assert f"/usr/bin/python{python}" in done.stdout.splitlines()


def test_rpmlint_reports_nothing_that_is_not_explained(rpms):
    done = subprocess.run(["rpmlint", "-c", REPOSITORY / "packaging/rpm/rpmlint.toml",
                           REPOSITORY / "packaging/rpm/iostats.spec", *rpms.values()],
                          capture_output=True, text=True)
    assert "8 packages and 1 specfiles checked; 0 errors, 0 warnings" in done.stdout, done.stdout


def test_rpms_are_installed_measure_a_node_and_are_removed(machine, rpms):
    """After the Debian packages were purged; without dependencies, as this is a Debian."""
    for name, path in rpms.items():
        machine.put(f"/rpms/{name}.rpm", path.read_bytes())
    reported = machine("sh", "-c", "rpm -i --nodeps /rpms/*.rpm", status=0).err
    assert "warning" not in reported and "error" not in reported
    assert f"iostats {__version__}" == " ".join(
        machine("iostats", "--version", status=0).out.split()[:2])
    assert machine.path("/usr/lib/iostats/iostats/__pycache__").exists()
    write_tree(machine.path("/tree"), **BEFORE)
    on_node = ("--node", "nid00023", "--root", "/tree", "--job", "4711", "--state-dir", "/state")
    machine("iostats", "start", *on_node, status=0)
    write_tree(machine.path("/tree"), **AFTER)
    shown = json.loads(machine("iostats", "show", "--json", *on_node, status=0).out)
    assert "read_bytes" in json.dumps(shown)
    machine("systemctl", "start", "iostats-reader.socket", status=0)
    config = machine.path("/etc/iostats/site.cfg")
    edited = config.read_text().replace("#keep_days = 365", "keep_days = 41", 1)
    config.write_text(edited)
    machine("sh", "-c", "rpm -U --nodeps --replacepkgs /rpms/*.rpm", status=0)
    assert edited == config.read_text()
    assert "active" == machine.is_active("iostats-reader.socket")
    machine("rpm", "-e", *(f"iostats-{name}" for name in rpms), status=0)
    assert "inactive" == machine.is_active("iostats-reader.socket")
    assert not machine.path("/usr/lib/iostats").exists()
    assert edited == machine.path("/etc/iostats/site.cfg.rpmsave").read_text()
    assert "" == machine("systemctl", "list-unit-files", "iostats*", "--no-legend").out
