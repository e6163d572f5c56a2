"""
What `make` needs and brings, without a network: what tools/setup prints, and what `make
install-...` writes into an image (DESTDIR), with packages that are made here.
"""
from __future__ import annotations

import ast
import gzip
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys

import pytest
from booted import SERVER_PACKAGES, SITE_PACKAGES, WEB_PACKAGES, make_wheels
from processes import REPOSITORY
from site_desk import SiteDesk, script

SINKS = {"prometheus_client"}
MAKE = ["make", "-s", "-C", str(REPOSITORY), f"UNIT_PYTHON={sys.executable}"]


def make(*words, env=None):
    return subprocess.run([*MAKE, *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, **(env or {})})


@pytest.mark.parametrize("role", ["site", "node", "harvest", "login", "reader", "web"])
def test_the_packages_of_a_role_are_those_of_pyproject_toml(role):
    """Those of sinks come with site.cfg, see below."""
    asked = ("import install, json, sys; "
             "print(json.dumps(install.requirements(install.ROLES[sys.argv[1]].extras)))")
    done = subprocess.run([sys.executable, "-c", asked, role], capture_output=True, text=True,
                          cwd=REPOSITORY / "packaging")
    assert (0, "") == (done.returncode, done.stderr)
    names = {re.match(r"[\w-]+", text)[0] for text in json.loads(done.stdout)}
    assert names == {**dict.fromkeys(("node", "login"), set(SERVER_PACKAGES) - SINKS),
                     "site": {*SERVER_PACKAGES, *SITE_PACKAGES} - SINKS,
                     "web": {*set(SERVER_PACKAGES) - SINKS, *WEB_PACKAGES} - {"numpy", "rich"},
                     }.get(role, set())


@pytest.mark.parametrize("text, found", [
    (None, []), ("[ganglia]\nsend_to = gmond1:8649\n", []),
    ("[influxdb]\nurl = http://influx1:8086\n[prometheus]\nlisten = localhost:9101\n",
     ["prometheus"]), ("[site]\nstore = postgresql://db1/iostats\n", ["postgresql"])],
    ids=["no site.cfg", "one without a package", "one with and one without", "PostgreSQL"])
def test_the_packages_of_sinks_and_store_are_those_of_a_site_that_uses_them(tmp_path, text, found):
    if text is not None:
        (tmp_path / "etc/iostats").mkdir(parents=True)
        (tmp_path / "etc/iostats/site.cfg").write_text(text)
    asked = ("import json, os, place, site_cfg; "
             "print(json.dumps(site_cfg.extras_on(place.Place(os.environ))))")
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True,
        env={**os.environ, "DESTDIR": str(tmp_path),
             "PYTHONPATH": f"{REPOSITORY / 'packaging'}:{REPOSITORY}"})
    assert (0, "") == (done.returncode, done.stderr)
    assert found == json.loads(done.stdout)


def room_of(role):
    return "iostats_ldms" if role == "ldms" else f"iostats/{role}"


@pytest.mark.parametrize("role", ["collector", "ldms", "web"])
def test_a_role_imports_nothing_that_its_packages_lack(role):
    """On a host of its own: `make install-site` beside it would bring the rest."""
    code = """if True:
        import importlib, json, pkgutil, re, sys
        sys.path[:0] = [sys.argv[2], sys.argv[2] + "/packaging"]
        import install

        def modules(*extras):
            names = {re.match(r"[\\w-]+", text)[0] for text in install.requirements(extras)}
            named = {"PyYAML": "yaml", "Jinja2": "jinja2", "markdown-it-py": "markdown_it"}
            return {named.get(name, name.replace("-", "_")) for name in names}

        class Lacking:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in lacking:
                    raise ModuleNotFoundError(f"no {name}", name=name)

        role = sys.argv[1]
        lacking = modules("server", "web", "ldms", "collector", "prometheus") - modules(
            *install.ROLES[role].extras)
        sys.meta_path.insert(0, Lacking())
        from iostats.cli import commands
        imported = [commands.list_modules()[role]]
        room = importlib.import_module("iostats_ldms" if role == "ldms" else f"iostats.{role}")
        imported += [one.name for one in pkgutil.walk_packages(room.__path__, room.__name__ + ".")]
        for name in imported:
            importlib.import_module(name)
        print(json.dumps([sorted(lacking), len(imported)]))
        """
    done = subprocess.run([sys.executable, "-I", "-c", code, role, REPOSITORY],
                          capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)
    lacking, imported = json.loads(done.stdout)
    # The room's own __init__ is not walked, and the command is one more.
    modules = list((REPOSITORY / room_of(role)).rglob("*.py"))
    assert {"numpy", "rich"} <= set(lacking) and len(modules) == imported


# -- tools/setup ---------------------------------------------------------------------------------

@pytest.mark.parametrize("status", [0, 7])
def test_what_pip_says_is_shown_only_when_it_fails(status):
    done = subprocess.run([REPOSITORY / "tools/quietly", "sh", "-c",
                           f"echo a page; echo of warnings >&2; exit {status}"],
                          capture_output=True, text=True)
    assert (status, "", "a page\nof warnings\n" if status else "") == (
        done.returncode, done.stdout, done.stderr)


def test_setup_prints_nothing_where_pip_and_npm_only_warn(tmp_path):
    """Nor does it say which packages it takes from where."""
    tools = tmp_path / "tools"
    tools.mkdir()
    script(tools / "npm", "#!/bin/sh\necho 'npm warn Unknown user config' >&2\n"
                          f"echo npm \"$@\" >>'{tmp_path}/asked'\n")
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.write_text("#!/bin/sh\necho 'WARNING: Location ... is ignored' >&2\n"
                      f"echo \"$@\" >>'{tmp_path}/asked'\n")
    python.chmod(0o755)
    done = subprocess.run([REPOSITORY / "tools/setup", venv], capture_output=True, text=True,
                          cwd=REPOSITORY, env={**os.environ, "CI": "", "PYTHON": sys.executable,
                                               "PATH": f"{tools}:{os.environ['PATH']}"})
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    pip, npm = (tmp_path / "asked").read_text().splitlines()
    assert "-m pip install" in pip and npm.startswith("npm ci ")


@pytest.mark.parametrize("what", ["demo", "demo-postgresql", "demo-ldms", "tests"])
def test_the_demo_brings_no_batch_system_and_no_database(tmp_path, what):
    """Their daemons would be there from the next boot on."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "cat", "chmod", "dirname", "env", "id", "mktemp", "rm", "sh"):
        (tools / name).symlink_to(shutil.which(name))
    script(tools / "apt-get", f"#!/bin/sh\necho apt-get \"$@\" >>'{tmp_path}/asked'\n")
    script(tools / "sudo", '#!/bin/sh\nshift; exec "$@"\n')
    for name in ("python3", "tee"):                # without venv; what is not here is not written
        script(tools / name, "#!/bin/sh\nexit 1\n")
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    script(venv / "bin/python", f"#!/bin/sh\necho python \"$@\" >>'{tmp_path}/asked'\n")
    done = subprocess.run([REPOSITORY / "tools/setup", venv, *([what] if what != "tests" else [])],
                          capture_output=True, text=True, cwd=REPOSITORY,
                          env={"PATH": str(tools)})
    assert (0, "") == (done.returncode, done.stderr)
    debian, pypi = (tmp_path / "asked").read_text().splitlines()
    packages = debian.partition("--no-install-recommends ")[2].split()
    if what != "tests":
        assert {"demo": ["fuse3", "python3-venv"],
                "demo-postgresql": ["fuse3", "python3-venv", "postgresql"],
                "demo-ldms": ["python3-venv", "etcd-server"]}[what] == packages
    assert (what == "tests") == ("slurmctld" in packages) == ("mariadb-server" in packages)
    assert pypi.endswith(" -e .[" + {
        "demo": "server,sim", "demo-postgresql": "server,sim,postgresql",
        "demo-ldms": "server,ldms",
        "tests": "server,bench,sim,charts,docs,ldms,mpi,postgresql,prometheus,site,test,web",
    }[what] + "]")


@pytest.mark.parametrize("arguments, target, command", [
    ((), "demo", "tools/demo_site.py"),
    (("STORE=postgresql",), "demo-postgresql", "tools/demo_site.py --store postgresql")])
def test_the_demo_of_a_site_with_either_store(arguments, target, command):
    done = subprocess.run(["make", "-n", "--no-print-directory", "-W", "tools/setup",
                           "demo-site", "VENV=no-venv",
                           *arguments], capture_output=True, text=True, cwd=REPOSITORY)
    assert f'tools/setup "no-venv" {target}\n' in done.stdout, done.stderr
    assert done.stdout.rstrip().endswith(command)


# -- images ----------------------------------------------------------------------------------------

@pytest.fixture
def wheels(tmp_path):
    directory = tmp_path / "wheels"
    make_wheels(directory)
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(directory), "PIP_NO_CACHE_DIR": "1"}


def test_an_image_names_no_path_of_where_it_was_made(tmp_path, wheels):
    """Neither DESTDIR in what lies in the image, nor /usr/local in one with another PREFIX."""
    image, prefix = tmp_path / "image", "/opt/tools"
    done = make("install-node", "SITE=mgmt1", f"DESTDIR={image}", f"PREFIX={prefix}", env=wheels)
    assert (0, "") == (done.returncode, done.stderr)
    lib = f"{prefix}/lib/iostats"
    assert f"      Prolog={lib}/hooks/slurm_prolog\n" in done.stdout
    assert "systemctl daemon-reload; systemctl enable --now iostats-deliver.timer" in done.stdout
    texts = {}
    for path in image.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            assert os.fsencode(image) not in data or "/site-packages/" in str(path) or (
                path.suffix == ".pyc"), path
            if "site-packages" not in str(path) and path.suffix != ".pyc":
                texts[path] = data.decode()
    assert [] == [
        path for path, text in texts.items()
        if "/usr/local/lib/iostats" in text and path.suffix not in (".py", ".cfg")]
    config = (image / "etc/iostats/site.cfg").read_text()
    assert "\nhost = mgmt1\n" in config
    advice = (image / lib[1:] / "docs/reference/findings.md").read_text()
    assert "\n## Small writes\n" in advice and f"{prefix}/lib" not in advice
    assert f"{lib}/iostats.sh" == os.readlink(image / prefix[1:] / "bin/iostats")
    # It runs where it is, as its scripts have been told no place.
    python = image / lib[1:] / "venv/bin/python"
    done = subprocess.run([python, "-I", image / lib[1:] / "iostats_server.py", "--print-port",
                           "--job", "4711"], capture_output=True, text=True)
    assert (0, "24711\n", "") == (done.returncode, done.stdout, done.stderr)
    done = make("uninstall", f"DESTDIR={image}", f"PREFIX={prefix}")
    assert [] == [path for path in image.rglob("*") if not path.is_dir()]


def test_templates_are_installed_with_their_modules(tmp_path):
    """In an image; tests/test_packages.py has the wheel.  commit.txt is written at installation."""
    done = make("install-login", "PACKAGES=no", f"DESTDIR={tmp_path}")
    assert (0, "") == (done.returncode, done.stderr)
    wanted, there = (
        {path.relative_to(top) for path in top.rglob("*")
         if path.is_file() and path.suffix not in (".py", ".pyc")}
        for top in (REPOSITORY / "iostats", tmp_path / "usr/local/lib/iostats/iostats"))
    assert {*wanted, pathlib.Path("commit.txt")} == there
    assert pathlib.Path("report/html/templates/page.html") in wanted
    assert {"static", "store", "templates"} == {path.parent.name for path in wanted}


def test_a_node_without_packages_measures_and_says_what_run_needs(tmp_path):
    """PACKAGES=no: Python alone."""
    done = make("install-node", "PACKAGES=no", f"DESTDIR={tmp_path}")
    assert (0, "") == (done.returncode, done.stderr)
    assert not (tmp_path / "usr/local/lib/iostats/venv").exists()
    text = (tmp_path / "usr/local/lib/iostats/iostats.sh").read_text()
    command = tmp_path / "iostats"
    command.write_text(text.replace("/usr/local/lib", f"{tmp_path}/usr/local/lib").replace(
        " -I -c", " -I -S -c"))
    done = subprocess.run(["sh", command, "run", "true"], capture_output=True, text=True)
    [line] = done.stderr.splitlines()
    assert 1 == done.returncode and "iostats: run needs the Python package" in line
    done = subprocess.run(["sh", command, "show", "--help"], capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)


def test_a_site_without_prometheus_needs_no_package_of_it(tmp_path, wheels):
    """Where a mirror lacks prometheus_client; with [prometheus] in site.cfg it is needed."""
    for wheel in (tmp_path / "wheels").glob("prometheus_client*"):
        wheel.unlink()
    done = make("install-site", f"DESTDIR={tmp_path / 'image'}", env=wheels)
    assert (0, "") == (done.returncode, done.stderr)
    with open(tmp_path / "image/etc/iostats/site.cfg", "a") as file:
        file.write("\n[prometheus]\nlisten = 127.0.0.1:9464\n")
    done = make("install-site", f"DESTDIR={tmp_path / 'image'}", env=wheels)
    assert 2 == done.returncode
    assert "No matching distribution found for prometheus_client" in done.stderr


def test_packages_that_cannot_be_had_are_an_error_with_pips_own_words(tmp_path):
    """And with all of their names, as a command for a shell."""
    done = make("install-login", f"DESTDIR={tmp_path}",
                env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)})
    [line] = [one for one in done.stderr.splitlines() if one.startswith("make: /")]
    words = shlex.split(line.partition(": these packages could not be installed")[0])
    assert {*SERVER_PACKAGES} - SINKS == {
        re.match(r"[\w-]+", word)[0] for word in words[words.index("install") + 1:]
        if word[0] != "-"}
    assert 2 == done.returncode and "No matching distribution" in done.stderr
    assert "these packages could not be installed.  Is there a way to PyPI from here" in done.stderr
    # An older release that is there stays as it was, all of it.
    assert ["venv"] == os.listdir(tmp_path / "usr/local/lib/iostats")


def test_packages_for_which_there_is_no_room_are_not_looked_for_at_pypi(tmp_path):
    python = tmp_path / "python3"
    python.write_text(f"""#!/bin/sh
case "$*" in *" venv "*) echo "[Errno 28] No space left on device: 'x'"; exit 1 ;; esac
exec {sys.executable} "$@"
""")
    python.chmod(0o755)
    done = make("install-login", f"DESTDIR={tmp_path / 'image'}", f"UNIT_PYTHON={python}")
    assert 2 == done.returncode and "the disk is full (df); then the same again\n" in done.stderr
    assert "python3-venv" not in done.stderr


def test_a_disk_that_is_full_is_a_line_and_the_old_release_stays(tmp_path):
    """The error of a write names no file; what was written so far filled the disk for good."""
    lib = tmp_path / "usr/local/lib/iostats"
    assert 0 == make("install-harvest", f"DESTDIR={tmp_path}").returncode
    before = {path: path.stat().st_ino for path in (lib / "iostats").rglob("*.py")}
    done = subprocess.run(["sh", "-c", 'ulimit -f 40; exec "$@"', "sh", *MAKE, "install-harvest",
                           f"DESTDIR={tmp_path}"], capture_output=True, text=True)
    assert 2 == done.returncode
    line = done.stderr.splitlines()[0]
    assert line.startswith(f"make: {lib}/iostats.new/")
    assert line.endswith(": File too large; when that is put right, the same command again does "
                         "the rest")
    assert before == {path: path.stat().st_ino for path in (lib / "iostats").rglob("*.py")}
    assert [] == [path for path in lib.rglob("*") if path.name.endswith(".new")]


def test_what_ctrl_c_stops_is_a_line(tmp_path):
    python = tmp_path / "python3"
    python.write_text(f"""#!/bin/sh
case "$*" in *" venv "*) kill -INT $PPID; exec sleep 60 ;; esac
exec {sys.executable} "$@"
""")
    python.chmod(0o755)
    done = make("install-login", f"DESTDIR={tmp_path / 'image'}", f"UNIT_PYTHON={python}")
    assert done.stderr.startswith("make: stopped; the same command again does the rest\n")


@pytest.mark.parametrize("role", ["site", "login"])
@pytest.mark.parametrize("auth, said", [("secret", True), ("munge secret", False)])
def test_what_users_need_to_see_their_own_jobs_is_left_to_do(tmp_path, role, auth, said):
    config = tmp_path / "etc/iostats/site.cfg"
    config.parent.mkdir(parents=True)
    config.write_text(f"[server]\nauth = {auth}\n[site]\nhost = mgmt1\n")
    done = make(f"install-{role}", "PACKAGES=no", f"DESTDIR={tmp_path}")
    assert 0 == done.returncode
    assert said == ("  for users to see their own jobs (iostats jobs, report): MUNGE on all "
                    "hosts,\n"
                    "    and in /etc/iostats/site.cfg, section [server]:\n"
                    "      auth = munge secret\n" in done.stdout)


@pytest.mark.parametrize("auth, there, said", [
    ("secret", False, True), ("secret", True, False), ("munge secret", False, False)])
def test_an_image_needs_the_secret_and_its_timer(tmp_path, auth, there, said):
    """No doctor looks at it, and no systemd runs in it."""
    etc = tmp_path / "etc/iostats"
    etc.mkdir(parents=True)
    (etc / "site.cfg").write_text(f"[server]\nauth = {auth}\n[site]\nhost = mgmt1\n")
    if there:
        (etc / "site.secret").write_text("0" * 64)
    done = make("install-node", "PACKAGES=no", f"DESTDIR={tmp_path}")
    assert 0 == done.returncode
    assert (f"      systemctl --root={tmp_path} enable iostats-deliver.timer\n"
            "  or on the host that runs it:\n"
            "      systemctl daemon-reload; systemctl enable --now iostats-deliver.timer\n"
            ) in done.stdout
    wanted = tmp_path / "etc/systemd/system/timers.target.wants/iostats-deliver.timer"
    wanted.parent.mkdir()                                # as `systemctl --root` does
    wanted.symlink_to("/etc/systemd/system/iostats-deliver.timer")
    assert 0 == make("uninstall", f"DESTDIR={tmp_path}").returncode
    assert not wanted.is_symlink()
    assert said == ("  copy the site's /etc/iostats/site.secret, readable by root only (0600)\n"
                    in done.stdout)


@pytest.mark.parametrize("role, said", [("node", True), ("harvest", False)])
def test_who_removes_the_hooks_is_told_to_take_them_out_of_the_batch_system(tmp_path, role, said):
    """Slurm drains each node whose Prolog it does not find."""
    make(f"install-{role}", "PACKAGES=no", f"DESTDIR={tmp_path}")
    done = make("uninstall", f"DESTDIR={tmp_path}")
    assert 0 == done.returncode
    assert said == ("left to do: take /usr/local/lib/iostats/hooks out of slurm.conf" in
                    done.stdout)


def test_what_stays_behind_a_link_is_named_once(tmp_path):
    """A unit with DynamicUser= has its directory in /var/lib/private, and a link to it."""
    (tmp_path / "var/lib/private/iostats-collector").mkdir(parents=True)
    (tmp_path / "var/lib/private/iostats-collector/events.journal").touch()
    (tmp_path / "var/lib/iostats-collector").symlink_to("private/iostats-collector")
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/site.sqlite").touch()
    (tmp_path / "var/lib/iostats").symlink_to(tmp_path / "disk")
    done = make("uninstall", f"DESTDIR={tmp_path}")
    assert (0, f"removed; kept, and removed by make uninstall PURGE=yes:\n"
               f"  {tmp_path}/var/lib/iostats/site.sqlite\n"
               f"  {tmp_path}/var/lib/private/iostats-collector/events.journal\n") == (
                   done.returncode, done.stdout)


def host_of(image):
    """The line of [site] host in an installed site.cfg."""
    [line] = [line for line in (image / "etc/iostats/site.cfg").read_text().splitlines()
              if line.startswith(("host = mgmt", "host = h:"))]
    return line


def test_a_host_that_site_names_anew_is_reported(tmp_path):
    """In a site.cfg that nobody edited; in an edited one it is not changed, which is reported."""
    def install(host):
        done = make("install-node", "PACKAGES=no", f"DESTDIR={tmp_path}", f"SITE={host}")
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout
    path = tmp_path / "etc/iostats/site.cfg"
    assert "mgmt1" not in install("mgmt1")
    assert f"{path}: [site] host is now mgmt2; it was mgmt1\n" in install("mgmt2")
    path.write_text(path.read_text().replace("\nhost = mgmt2\n", "\nhost = mgmt3\n"))
    assert f"{path}: [site] host is now mgmt2; it was mgmt3\n" in install("mgmt2")
    with path.open("a") as file:
        file.write("# edited\n")
    assert ("  /etc/iostats/site.cfg was edited and is not changed: if the site's server is\n"
            "    mgmt4, replace [site] host = mgmt2 there\n") in install("mgmt4")
    assert "host = mgmt2" == host_of(tmp_path)


@pytest.mark.parametrize("host", ["h:99999", "[fd00::5", "[fd00::5]x", ":19990"])
def test_a_host_that_cannot_be_is_refused_before_anything_is_written(tmp_path, host):
    done = make("install-node", "PACKAGES=no", f"DESTDIR={tmp_path}", f"SITE={host}")
    assert (2, f"make: SITE: expected HOST or HOST:PORT, got '{host}'") == (
        done.returncode, done.stderr.splitlines()[0])
    assert [] == list(tmp_path.iterdir())


def test_a_site_cfg_that_cannot_be_read_is_a_line(tmp_path):
    """Also where it is the one that was installed last."""
    for path in ("etc/iostats", "usr/local/lib/iostats"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "site.cfg").write_text("[site]\nhost = h:99999\n")
    done = make("install-node", "PACKAGES=no", f"DESTDIR={tmp_path}")
    assert (2, f"make: {tmp_path}/etc/iostats/site.cfg:2: [site] host: expected HOST or HOST:PORT, "
               "got 'h:99999'") == (done.returncode, done.stderr.splitlines()[0])


@pytest.mark.parametrize("role", ["site", "node", "login", "harvest", "collector", "ldms", "web",
                                  "reader"])
def test_what_is_left_to_do_fits_into_80_columns(tmp_path, role):
    """All lines but those that are to be copied, whose width is that of DESTDIR's name."""
    image = tmp_path / "image"
    done = make(f"install-{role}", "PACKAGES=no", f"DESTDIR={image}")
    assert 0 == done.returncode and "left to do:" in done.stdout
    lines = done.stdout.replace(str(image), "/image").splitlines()
    assert [] == [line for line in lines if len(line) > 80]


@pytest.mark.parametrize("words, there, said", [
    (["SITE=mgmt1"], False, True), ([], False, False), (["SITE=mgmt1"], True, False)])
def test_what_ldms_needs_to_tell_the_sites_server_of_events_is_left_to_do(
        tmp_path, words, there, said):
    """Its user is not root, whose events alone are taken by munge: it needs the site's secret."""
    if there:
        (tmp_path / "etc/systemd/system/iostats-ldms.service.d").mkdir(parents=True)
    done = make("install-ldms", "PACKAGES=no", f"DESTDIR={tmp_path}", *words)
    assert 0 == done.returncode
    assert said == ("site's secret, also with MUNGE" in " ".join(done.stdout.split()))


def test_iostats_ldms_is_installed_by_its_own_role_and_updated_by_each(tmp_path):
    """A host for job reports is without it, and says how to install it."""
    lib = tmp_path / "usr/local/lib/iostats"
    assert 0 == make("install-site", "PACKAGES=no", f"DESTDIR={tmp_path}").returncode
    assert (lib / "iostats").is_dir() and not (lib / "iostats_ldms").exists()
    code = (f"import sys; sys.path.insert(0, {str(lib)!r}); "
            "from iostats.__main__ import main; sys.exit(main(['ldms', 'status']))")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (1, "iostats: ldms needs the Python package 'iostats_ldms': sudo make install-ldms, or "
               "from the checkout into a virtual environment: python3 -m pip install '.[ldms]'\n"
            ) == (done.returncode, done.stderr)
    assert 0 == make("install-ldms", "PACKAGES=no", f"DESTDIR={tmp_path}").returncode
    assert (lib / "iostats_ldms/cli/check.py").is_file()
    (lib / "iostats_ldms/removed_in_this_release.py").write_text("")
    assert 0 == make("install-site", "PACKAGES=no", f"DESTDIR={tmp_path}").returncode
    assert (lib / "iostats_ldms/cli/check.py").is_file()
    assert not (lib / "iostats_ldms/removed_in_this_release.py").exists()


@pytest.fixture
def old_python(tmp_path):
    """A python3 that says it is 3.6, as that of Enterprise Linux 8; its grammar is ours."""
    python = tmp_path / "python3"
    python.write_text(f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
exec {sys.executable} -I -S -c 'import runpy, sys
sys.version_info = (3, 6, 8, "final", 0)
sys.argv[:] = sys.argv[1:]
sys.executable = "{python}"
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
""")
    python.chmod(0o755)
    return python


@pytest.mark.parametrize("what", ["install-harvest", "uninstall"])
def test_a_python_that_is_too_old_installs_nothing_and_says_how(tmp_path, old_python, what):
    """It was a traceback: subprocess.run() has no capture_output before 3.7."""
    done = make(what, f"DESTDIR={tmp_path / 'image'}", f"UNIT_PYTHON={old_python}")
    assert 2 == done.returncode and not (tmp_path / "image").exists()
    assert done.stderr.startswith(f"make: {old_python}: expected Python 3.9 or newer, got 3.6; "
                                  f"name one: make ... UNIT_PYTHON=/usr/bin/python3.11\n")


@pytest.mark.parametrize("script", ["iostats_client.py", "iostats_server.py",
                                    "packaging/install.py", "packaging/place.py",
                                    "packaging/site_cfg.py"])
def test_what_tells_that_python_is_too_old_can_be_read_by_it(script):
    text = (REPOSITORY / script).read_text()
    ast.parse(text, feature_version=(3, 6))
    assert "from __future__ import annotations" not in text and ":=" not in text


@pytest.mark.parametrize("script", ["iostats_client.py", "iostats_server.py"])
@pytest.mark.parametrize("words, status", [
    (["show"], 1), (["start", "--never-fail"], 0), (["prolog"], 0), (["epilog"], 0)])
def test_a_python_that_is_too_old_is_a_line(old_python, script, words, status):
    """It was a traceback: 3.6 does not know `from __future__ import annotations`."""
    path = REPOSITORY / script
    done = subprocess.run([old_python, "-I", "-S", path, *words], capture_output=True, text=True)
    assert (status, "", f"iostats: {old_python} is Python 3.6, and 3.9 is needed; if there is a "
            f"newer one: python3.9 {path} ...\n") == (done.returncode, done.stdout, done.stderr)


def test_the_python_that_is_named_runs_all_of_it(tmp_path):
    """Where python3 is too old: commands, job scripts and the nodes of `iostats run`, too."""
    newer = tmp_path / "python3.97"
    newer.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    newer.chmod(0o755)
    done = make("install-harvest", "UNIT_PYTHON=python3.97", f"DESTDIR={tmp_path / 'image'}",
                env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert (0, "") == (done.returncode, done.stderr)
    lib = tmp_path / "image/usr/local/lib/iostats"
    for name in ("iostats_client.py", "iostats_server.py"):
        assert f"#!{newer}\n" == (lib / name).read_text().splitlines(keepends=True)[0]
    job = (lib / "sample_job.sh").read_text()
    assert f"${{NODE_PYTHON:-{newer}}}" in job and "-python3}" not in job
    assert f"\npython = {newer}\n" in (lib / "site.cfg").read_text()
    unit = tmp_path / "image/etc/systemd/system/iostats-harvest.service"
    assert f"\nExecStart={newer} -I -S " in unit.read_text()


@pytest.mark.parametrize("words, said", [
    (["UNIT_PYTHON=/nowhere/python3"], "/nowhere/python3"),
    (["PREFIX=usr"], "PREFIX and DESTDIR: expected absolute paths, got 'usr'")])
def test_what_cannot_be_is_one_line(tmp_path, words, said):
    done = make("install-harvest", f"DESTDIR={tmp_path}", *words)
    assert 2 == done.returncode and said in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "usr").exists()


# -- what the units ask of the site's server -------------------------------------------------------

def test_the_sites_server_takes_the_secret_that_is_named(tmp_path):
    """--secret was ignored with --site, though an error's advice was to use it."""
    with SiteDesk(tmp_path) as desk:
        other = tmp_path / "other.secret"
        desk.configure(site_secret="/proc/nowhere/site.secret")
        server = desk.site("--secret", other)
        assert f"iostats: {other}: a new secret" in server.err
        assert 65 == len(other.read_text())


def test_the_sites_server_tells_systemd_that_it_listens(tmp_path):
    """Type=notify: `systemctl start` comes back when it does, and not before."""
    with SiteDesk(tmp_path) as desk, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        desk.begin_site(env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert b"READY=1" == systemd.recv(100)
