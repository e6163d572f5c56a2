"""
`make install-ROLE` and `make uninstall`: what each role needs on its host, and what is left to do.

    PREFIX/lib/iostats       the program (iostats_ldms with install-ldms alone), hooks, docs,
                             sample_job.sh, site.cfg as it was installed, and venv/ with Python
                             packages for the roles that need some
    PREFIX/bin               iostats, iostats_client.py, iostats_server.py
    PREFIX/share             man pages and shell completion
    /etc/iostats             site.cfg, site.secret
    UNITDIR                  units of systemd
    /var/lib/iostats         made by the units and the hooks: reports, records, what waits

Everything can be run again, and over an older release: an edited site.cfg is not overwritten,
services that run are restarted.  With DESTDIR (an image, a package) only files are written.
Standard library only, from Python 3.9 on.
"""

import compileall
import glob
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections import namedtuple

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [HERE, os.path.join(HERE, "packaging")]

import pages
import site_cfg
from place import ETC, STATES, Failed, Place, copy, write

Role = namedtuple("Role", "what units starts extras")
ROLES = {
    "site": Role("the site's server", ("iostats-site.service",), "iostats-site.service",
                 ("server", "site")),            # and what site.cfg turns on
    "node": Role("a compute node", ("iostats-deliver.service", "iostats-deliver.timer"),
                 "iostats-deliver.timer", ("server",)),
    "harvest": Role("a storage server",
                    ("iostats-harvest.service", "iostats-lnetctl.service", "iostats-lnetctl.timer"),
                    "iostats-harvest.service", ()),
    "collector": Role("the collector", ("iostats-collector.service",), "iostats-collector.service",
                      ("collector",)),
    "ldms": Role("LDMS' configuration", ("iostats-ldms.service",), "iostats-ldms.service",
                 ("ldms",)),
    "web": Role("the pages", ("iostats-web.service",), "iostats-web.service", ("web",)),
    "login": Role("a login node", (), "", ("server",)),
    "reader": Role("the reader", ("iostats-reader.socket", "iostats-reader@.service"),
                   "iostats-reader.socket", ()),
}
UNITS = [unit for role in ROLES.values() for unit in role.units]
COMMANDS = ("iostats", "iostats_client.py", "iostats_server.py")
OLDEST_PYTHON = (3, 9)
WIDTH, INDENT = 80, "    "
PARTS = (".py", ".html", ".css", ".js", ".svg", ".sql")     # of the program: modules, pages, tables


# -- install -----------------------------------------------------------------------------------

def install(name, place, packages):
    from iostats.base.text import wrap  # not before main has checked this Python
    role = ROLES[name]
    site_cfg.check_host(place.site)
    if not place.destdir and os.geteuid():
        raise Failed(f"expected root, got user {os.geteuid()}; use: sudo make install-{name}")
    if packages:                                   # first: without them the old release stays
        put_libraries(place, [*role.extras,
                              *(site_cfg.extras_on(place) if name == "site" else ())])
    put_program(place)
    # Where it is installed already, each role updates it: it has to fit the new iostats.
    if name == "ldms" or os.path.isdir(f"{place.staged(place.lib)}/iostats_ldms"):
        put_package("iostats_ldms", place)
    config = site_cfg.written(name, place)
    if name == "web":
        put_ondemand(place)
    put_units(name, place, config)
    if place.live:
        _systemctl("daemon-reload")
        for unit in UNITS:
            if unit.endswith(".service") and "@" not in unit and "deliver" not in unit:
                _systemctl("try-restart", unit)
    print(f"installed: {role.what}, in {place.staged(place.lib)}")
    left = _left_to_do(name, place, config)
    if not place.destdir:
        left += _doctor(place, role.starts)
    if left:
        print("left to do:")
        for line in left:
            # What is to be copied (a command, a line of slurm.conf) is never broken.
            for part in [line] if line.startswith(INDENT) else wrap(line, WIDTH - 2, "  "):
                print(f"  {part}")


def put_units(name, place, config):
    """The units of a role."""
    for unit in ROLES[name].units:
        _from_template(f"{HERE}/systemd/{unit}", place.staged(place.units, unit), place, 0o644,
                       f"{place.venv}/bin/python" if name == "site" else "", config)


def put_program(place):
    """The program, hooks, documents and commands."""
    lib = place.staged(place.lib)
    os.makedirs(lib, exist_ok=True)
    os.chmod(lib, 0o755)
    put_package("iostats", place)
    for script in ("iostats_client.py", "iostats_server.py"):
        _from_template(f"{HERE}/{script}", f"{lib}/{script}", place, 0o755)
    os.makedirs(f"{lib}/hooks", exist_ok=True)
    for hook in os.listdir(f"{HERE}/hooks"):
        if os.path.isfile(f"{HERE}/hooks/{hook}"):
            _from_template(f"{HERE}/hooks/{hook}", f"{lib}/hooks/{hook}", place, 0o755)
    shutil.rmtree(f"{lib}/docs", ignore_errors=True)    # pages of an older release
    _tree(f"{HERE}/docs", f"{lib}/docs", place, (".md", ".json"))
    _from_template(f"{HERE}/sample_job.sh", f"{lib}/sample_job.sh", place, 0o755)
    _from_template(f"{HERE}/packaging/iostats.sh", f"{lib}/iostats.sh", place, 0o755)
    pages.write_below(place.staged(place.share), place.lib)
    os.makedirs(place.staged(place.bin), exist_ok=True)
    for command in COMMANDS:
        _link(f"{place.lib}/{command if command.endswith('.py') else 'iostats.sh'}",
              place.staged(place.bin, command))


def put_package(name, place):
    """Replace a Python package as a whole: hooks run during it, and removed modules disappear."""
    lib = place.staged(place.lib)
    new, old = f"{lib}/{name}.new", f"{lib}/{name}.old"
    for path in (new, old):
        shutil.rmtree(path, ignore_errors=True)
    try:
        for directory, below, names in os.walk(f"{HERE}/{name}"):
            below[:] = [subdirectory for subdirectory in below if subdirectory != "__pycache__"]
            to = os.path.join(new, os.path.relpath(directory, f"{HERE}/{name}"))
            os.makedirs(to, exist_ok=True)
            for file in names:
                if file.endswith(PARTS):
                    copy(os.path.join(directory, file), os.path.join(to, file), 0o644)
        if name == "iostats":
            from iostats.base.version import (  # not before the check of main
                COMMIT_FILE,
                find_commit,
            )
            write(f"{new}/{COMMIT_FILE}", f"{find_commit()}\n".encode(), 0o644)
        compileall.compile_dir(new, quiet=2, stripdir=new, prependdir=f"{place.lib}/{name}")
    except OSError:                                 # a disk that is full has room again
        shutil.rmtree(new, ignore_errors=True)
        raise
    if os.path.isdir(f"{lib}/{name}"):
        os.rename(f"{lib}/{name}", old)
    os.rename(new, f"{lib}/{name}")
    shutil.rmtree(old, ignore_errors=True)


def put_ondemand(place):
    """The directory of an app of Open OnDemand, for its host: docs/how-to/web.md."""
    _tree(f"{HERE}/packaging/ondemand", f"{place.staged(place.lib)}/ondemand", place)


def _tree(source, to, place, endings=("",)):
    """Copy the files below `source` whose names have one of these endings, as templates."""
    for directory, _, names in os.walk(source):
        below = os.path.normpath(os.path.join(to, os.path.relpath(directory, source)))
        os.makedirs(below, exist_ok=True)
        for file in names:
            if file.endswith(endings):
                _from_template(os.path.join(directory, file), os.path.join(below, file), place,
                               0o755 if file == "python" else 0o644)


def _from_template(source, to, place, mode, python="", config=None):
    """A file that names places: as they are here; `config`: of a unit, for those of site.cfg."""
    values = {"@LIBDIR@": place.lib, "@PYTHON@": python or place.python,
              "/usr/local/lib/iostats": place.lib, "/usr/bin/python3": place.python}
    if place.python_named:                              # python3 is too old, or it would not be
        values.update({"/usr/bin/env python3": place.python, ":-python3}": f":-{place.python}}}"})
    for word, key in (("@HOOK_DIR@", "node.hook_dir"), ("@SPOOL_DIR@", "harvest.spool_dir")):
        values[word] = config.get_value(key) if config else word
    words = "|".join(map(re.escape, values))
    with open(source, encoding="utf-8") as file:
        text = re.sub(words, lambda found: values[found.group()], file.read())
    write(to, text.encode(), mode)


def _link(target, path):
    if os.path.lexists(path) and not os.path.islink(path):
        raise Failed(f"{path}: expected nothing, or a link of iostats, got a file; move it away")
    if not os.path.islink(path) or os.readlink(path) != target:
        if os.path.islink(path):
            os.unlink(path)
        os.symlink(target, path)


# -- packages ----------------------------------------------------------------------------------

def requirements(extras):
    """[requirement] of `extras`, as pyproject.toml has them."""
    with open(f"{HERE}/pyproject.toml", encoding="utf-8") as file:
        text = file.read()
    found = []
    for extra in extras:
        block = re.search(rf"(?m)^{extra} = \[((?:[^\]\"]|\"[^\"]*\")*)\]", text)
        found += re.findall(r'"([^"]+)"', re.sub(r"(?m)\s#.*$", "", block.group(1)))
    return found


_NO_VENV = "a virtual environment could not be made; on Debian: apt-get install python3-venv"


def put_libraries(place, extras):
    """A venv of our own with what `extras` need; what else is in it stays (pyslurm, say)."""
    if not extras:
        return
    venv = place.staged(place.venv)
    python = f"{venv}/bin/python"
    version = [place.python, "-c", "import sys; print(sys.version_info[:2])"]
    if not os.path.exists(python) or _output([python, *version[1:]]) != _output(version):
        _run([place.python, "-m", "venv", "--clear", venv], _NO_VENV)
    elif _output([python, "-m", "pip", "--version"]) is None:
        _run([place.python, "-m", "venv", "--upgrade", venv], _NO_VENV)
    # No user's PYTHONPATH is to be loaded here.
    _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check",
          *requirements(extras)],
         "these packages could not be installed.  Is there a way to PyPI from here, or does "
         "PIP_INDEX_URL or /etc/pip.conf name a mirror?  A compute node does without them "
         "(make install-node PACKAGES=no), but for `iostats run`")
    if place.destdir:
        names = [f"bin/{script}" for script in os.listdir(f"{venv}/bin")]
        for path in [f"{venv}/{name}" for name in ("pyvenv.cfg", *names)]:
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    data = file.read()
                write(path, data.replace(venv.encode(), place.venv.encode()),
                       stat.S_IMODE(os.stat(path).st_mode))


def _environment():
    return {name: value for name, value in os.environ.items()
            if not name.startswith("PYTHON") and name != "VIRTUAL_ENV"}


def _output(command):
    """What a command prints; None where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=_environment())
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def _run(command, why):
    """Run a command, and keep what it says to itself unless it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=_environment())
    if done.returncode:
        sys.stderr.write(done.stdout)
        if "No space left on device" in done.stdout:
            why = "the disk is full (df); then the same again"
        raise Failed(f"{shlex.join(command)}: {why}")


# -- what is left to do ------------------------------------------------------------------------

def _left_to_do(name, place, config):
    role, hooks = ROLES[name], f"{place.lib}/hooks"
    left = []
    if place.site not in ("", config.site.host):
        left.append(f"{ETC}/site.cfg was edited and is not changed: if the site's server is "
                    f"{place.site}, replace [site] host = {config.site.host or '(none)'} there")
    elif name in ("node", "login", "harvest", "web") and not config.site.host:
        left += [f"name the site's server: [site] host in {ETC}/site.cfg (a copy of the site's "
                 f"own has it), or:", f"{INDENT}make install-{name} SITE=HOST"]
    if role.starts and not (place.live and _systemctl("is-active", role.starts)
                            and _systemctl("is-enabled", role.starts)):
        left += ["enable the unit in the image:",
                 f"{INDENT}systemctl --root={place.destdir} enable {role.starts}",
                 "or on the host that runs it:"] if place.destdir else ["enable the unit:"]
        left.append(INDENT + ("" if place.live else "systemctl daemon-reload; ")
                    + f"systemctl enable --now {role.starts}")
    if place.destdir and name in ("node", "harvest") and config.server.auth == ["secret"] and (
            not os.path.exists(place.staged(config.site.secret))):
        left.append(f"copy the site's {config.site.secret}, readable by root only (0600)")
    if name == "site":
        also = " and site.secret, readable by root only (0600),"
        if "munge" in config.server.auth:
            also = " (and site.secret, readable by root only, to hosts without munge)"
        left.append(f"copy {ETC}/site.cfg{also} to {ETC} of the nodes, login nodes and storage "
                    f"servers, and there: make install-node, install-login, install-harvest")
        left += ["for mail with reports, SlurmUser in [site] readers, and in slurm.conf:",
                 f"{INDENT}MailProg={hooks}/slurm_mail"]
    if name in ("site", "login") and "munge" not in config.server.auth:
        left += [f"for users to see their own jobs (iostats jobs, report): MUNGE on all hosts, "
                 f"and in {ETC}/site.cfg, section [server]:", f"{INDENT}auth = munge secret"]
    if name == "web":
        left.insert(0, f"configure who is asking: [web] user_header and trusted in {ETC}/site.cfg "
                       f"for a proxy, or the local socket alone (docs/how-to/web.md); and name "
                       f"iostats-web in [site] readers of the site's server")
        if not _has_user(place, "iostats-web"):
            left[:0] = ["create the user that the unit runs as, here and where the site's server "
                        "runs, with the same user id:", f"{INDENT}useradd --system iostats-web"]
    if name == "ldms" and config.site.host and not os.path.isdir(
            place.staged(place.units, "iostats-ldms.service.d")):
        left.insert(0, "give it the site's secret, also with MUNGE, or the site's server takes "
                       f"none of its events: {place.units}/iostats-ldms.service says how")
    if name == "ldms" and not (config.etcd.endpoints and config.etcd.prefix):
        left[:0] = [f"name etcd's members and this cluster: [etcd] endpoints and prefix in "
                    f"{ETC}/site.cfg; then (docs/how-to/ldms.md):",
                    f"{INDENT}iostats ldms load FILE"]
    if name == "node":
        left += ["in slurm.conf (PBS, LSF, Flux: docs/how-to/batch.md):",
                 *(INDENT + line for line in (f"Prolog={hooks}/slurm_prolog",
                                              f"Epilog={hooks}/slurm_epilog",
                                              "PrologFlags=Alloc"))]
    return left


def _has_user(place, name):
    try:
        with open(place.staged("/etc/passwd"), encoding="utf-8", errors="replace") as file:
            return any(line.startswith(f"{name}:") for line in file)
    except OSError:
        return False


def _doctor(place, starts):
    """[line] of what the doctor finds in the way, but not that the unit `starts` is not running."""
    done = _output_of_doctor(place)
    found = [one for one in done["checks"]
             if one["state"] == "problem" and not one["fix"].endswith(f" {starts}")]
    print(f"doctor: {len(found) or 'no'} problem{'s' * (len(found) != 1)} "
          f"(iostats_client.py doctor has all)")
    left = []
    for one in found:
        left.append(f"{one['name']}: {one['text']}")
        if one["fix"]:
            left.append(f"{INDENT}{'check' if one['check'] else 'fix'}: {one['fix']}")
    return left


def _output_of_doctor(place):
    done = subprocess.run([place.python, "-I", "-S", f"{place.lib}/iostats_client.py", "doctor",
                           "--json"], capture_output=True, text=True, cwd="/",
                          env={"PATH": os.environ.get("PATH", os.defpath)})
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise Failed(f"the doctor could not be run: {done.stderr.strip()[-500:]}") from error


def _systemctl(*words):
    """Whether systemctl says yes."""
    return subprocess.run(["systemctl", "-q", *words], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


# -- uninstall ---------------------------------------------------------------------------------

def uninstall(place, purge):
    if not place.destdir and os.geteuid():
        raise Failed(f"expected root, got user {os.geteuid()}; use: sudo make uninstall")
    units = [unit for unit in UNITS if os.path.lexists(place.staged(place.units, unit))]
    if place.live:
        for unit in units:
            if "@" not in unit:
                _systemctl("disable", "--now", unit)
    for unit in units:
        for path in glob.glob(f"{glob.escape(place.staged(place.units))}/*.wants/{unit}"):
            os.unlink(path)                         # enabled in an image
        os.unlink(place.staged(place.units, unit))
    if place.live and units:
        _systemctl("daemon-reload")
        _systemctl("reset-failed", "iostats-*")
    if place.live:
        shutil.rmtree("/run/iostats", ignore_errors=True)
    for command in COMMANDS:
        path = place.staged(place.bin, command)
        if os.path.islink(path) and os.readlink(path).startswith(place.lib + "/"):
            os.unlink(path)
    for name in pages.pages():
        path = place.staged(place.share, name)
        if os.path.exists(path):
            os.unlink(path)
        # Empty directories are removed, but for share/, share/man and those of zsh's package.
        directory = os.path.dirname(path)
        while (os.path.isdir(directory) and not os.listdir(directory)
                and os.path.basename(directory) not in ("share", "man", "site-functions")):
            os.rmdir(directory)
            directory = os.path.dirname(directory)
    kept = []
    theirs = place.staged(ETC, "site.cfg")
    last = place.staged(place.lib, "site.cfg")
    if os.path.exists(theirs) and not site_cfg.is_edited(theirs, last):
        os.unlink(theirs)
    shutil.rmtree(place.staged(place.lib), ignore_errors=True)
    ours = [place.staged(path) for path in (ETC, *STATES)]
    for path in ours:
        if purge:
            if os.path.islink(path):                # of a unit with DynamicUser=
                os.unlink(path)
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.isdir(path) and os.path.realpath(path) not in {*ours} - {path}:
            kept += _files(path)
    if any("deliver" in unit for unit in units):
        print(f"left to do: take {place.lib}/hooks out of slurm.conf\n"
              f"  (or PBS, LSF, Grid Engine, Flux): Slurm drains a node whose Prolog is missing")
    print("removed" + ("; kept, and removed by make uninstall PURGE=yes:" if kept else ""))
    for path in kept:
        print(f"  {path}")


def _files(path):
    """[file] below `path`, of directories with many the directory; empty ones are removed."""
    found = []
    for directory, _, names in os.walk(path, topdown=False):
        if len(names) > 4:
            found.append(directory + "/")
        elif names:
            found += [os.path.join(directory, name) for name in sorted(names)]
        elif not os.listdir(directory):
            os.rmdir(directory)
    return found


def main(words):
    os.umask(0o022)
    try:
        if sys.version_info < OLDEST_PYTHON:            # UNIT_PYTHON, which runs this
            raise Failed("{}: expected Python 3.9 or newer, got {}.{}; name one: make ... "
                         "UNIT_PYTHON=/usr/bin/python3.11".format(sys.executable,
                                                                   *sys.version_info))
        place = Place(os.environ)
        if words == ["uninstall"]:
            uninstall(place, os.environ.get("PURGE") == "yes")
        else:
            install(words[0], place, os.environ.get("PACKAGES") != "no")
    except Failed as error:
        sys.exit(f"make: {error}")
    except KeyboardInterrupt:
        sys.exit("make: stopped; the same command again does the rest")
    except OSError as error:
        where = error.filename2 or error.filename or place.staged(place.lib)
        sys.exit(f"make: {where}: {error.strerror or error}; when that is put right, the same "
                 f"command again does the rest")


if __name__ == "__main__":
    main(sys.argv[1:])
