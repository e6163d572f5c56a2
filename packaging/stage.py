"""
The contents of the packages, each in a directory of its own: packaging/install.py has the files of
each role, this decides which package they are in.

    stage.py debian                       debian/PACKAGE, for packaging/debian/rules
    stage.py rpm BUILDROOT PYTHON LIBS    BUILDROOT, and PACKAGE.files for the %files of
                                          packaging/rpm/iostats.spec; PYTHON: the interpreter of
                                          the target, as /usr/bin/python3.9; LIBS: its release
                                          (3.9), or "none" to leave the libraries out
"""

import os
import platform
import re
import shutil
import subprocess
import sys

TOP = os.getcwd()
sys.path[:0] = [TOP, os.path.join(TOP, "packaging")]

import install
import place as places
import site_cfg

from iostats import sinks

LIB = "usr/lib/iostats"
UNITS = {                           # package: roles whose units it has
    "iostats-node": ("node", "reader"), "iostats-harvest": ("harvest",),
    "iostats-collector": ("collector",), "iostats-site": ("site",), "iostats-web": ("web",),
    "iostats-ldms": ("ldms",)}
CONFIG = "/etc/iostats/site.cfg"
OWN_DIRECTORY = re.compile(r"/(etc|usr/lib)/iostats")
EXTRAS = sorted({extra for role in install.ROLES.values() for extra in role.extras}
                | {"postgresql"}
                | {name for name in sinks.list_names() if sinks.find_sink(name).REQUIRES})


def pins():
    """The versions that the tests have passed with, a constraint a line."""
    with open("tools/requirements-ci.txt", encoding="utf-8") as file:
        found = re.findall(r"(?m)^[\w.-]+(?:\[\w+\])?==[^\\\n]+", file.read())
    return "\n".join(found) + "\n"


def stage_programs(find_place):
    """All packages but the libraries; `find_place`: package -> its Place."""
    from iostats.base import config as site
    config = site.load("site.cfg", environ={})
    common = find_place("iostats-common")
    install.put_program(common)
    os.chmod(common.staged(common.lib, "hooks/pbs_hook.py"), 0o644)      # PBS reads it
    places.copy("site.cfg", common.staged(common.lib, "site.cfg"), 0o644)
    for package, roles in UNITS.items():
        for role in roles:
            install.put_units(role, find_place(package), config)
    install.put_package("iostats_ldms", find_place("iostats-ldms"))
    install.put_ondemand(find_place("iostats-web"))


def remove_compiled(directory):
    """Modules are compiled where they are installed, for the Python that is there."""
    for path, below, _ in os.walk(directory):
        if "__pycache__" in below:
            shutil.rmtree(f"{path}/__pycache__")
            below.remove("__pycache__")


# -- Debian ------------------------------------------------------------------------------------

def debian():
    def find_place(package):
        return places.Place({"PREFIX": "/usr", "DESTDIR": f"{TOP}/debian/{package}",
                             "UNITDIR": "/lib/systemd/system"})
    stage_programs(find_place)
    top = find_place("iostats-common").destdir
    documents = f"{top}/usr/share/doc/iostats-common"
    os.makedirs(documents)
    os.rename(f"{top}/{LIB}/docs", f"{documents}/docs")
    os.symlink("../../share/doc/iostats-common/docs", f"{top}/{LIB}/docs")
    os.rename(f"{top}/usr/share/zsh/site-functions", f"{top}/usr/share/zsh/vendor-completions")
    _debian_libraries(find_place("iostats-libs"))
    remove_compiled(f"{TOP}/debian")


def _debian_libraries(place):
    """A virtual environment of this machine's Python."""
    constraints = f"{TOP}/debian/constraints.txt"
    with open(constraints, "w", encoding="utf-8") as file:
        file.write(pins())
    os.environ.setdefault("PIP_CONSTRAINT", constraints)
    install.put_libraries(place, EXTRAS)
    venv = place.staged(place.venv)
    for name in os.listdir(f"{venv}/bin"):                   # no commands but Python itself
        if not name.startswith("python"):
            os.unlink(f"{venv}/bin/{name}")
    purelib = next(os.path.join(venv, "lib", name) for name in os.listdir(f"{venv}/lib"))
    for name in os.listdir(f"{purelib}/site-packages"):
        path = f"{purelib}/site-packages/{name}"
        if re.match(r"(pip|setuptools|pkg_resources|_distutils_hack)(-|$)", name):
            shutil.rmtree(path)
        elif name == "distutils-precedence.pth":
            os.unlink(path)


# -- RPM ---------------------------------------------------------------------------------------

def rpm(buildroot, python, libraries):
    def find_place(package):
        place = places.Place({"PREFIX": "/usr", "DESTDIR": f"{TOP}/staged/{package}",
                              "UNITDIR": "/usr/lib/systemd/system", "UNIT_PYTHON": python})
        place.python, place.python_named = python, True     # no `#!/usr/bin/env`
        return place
    stage_programs(find_place)
    common = find_place("iostats-common")
    # SELinux: systemd starts what is labelled bin_t, and files below /usr/lib are lib_t.
    os.replace(common.staged(common.lib, "iostats.sh"), common.staged(common.bin, "iostats"))
    os.symlink("../../bin/iostats", common.staged(common.lib, "iostats.sh"))
    with open("site.cfg", encoding="utf-8") as file:
        text = file.read()
    if python != places.PYTHON:
        text = site_cfg.with_values(text, {"node.python": python})
    for path in (common.staged(common.lib, "site.cfg"), common.staged(CONFIG)):
        places.write(path, text.encode(), 0o644)
    if libraries != "none":
        _rpm_libraries(find_place("iostats-libs"), libraries)
    remove_compiled(f"{TOP}/staged")
    os.makedirs(f"{TOP}/staged/iostats-client", exist_ok=True)
    for package in os.listdir(f"{TOP}/staged"):
        with open(f"{package}.files", "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in _files(f"{TOP}/staged/{package}"))
        shutil.copytree(f"{TOP}/staged/{package}", buildroot, symlinks=True, dirs_exist_ok=True)


def _rpm_libraries(place, release):
    """A virtual environment of a Python that need not be on this machine, by uv."""
    venv = place.staged(place.venv)
    packages = f"{venv}/lib/python{release}/site-packages"
    os.makedirs(packages)
    os.makedirs(f"{venv}/bin")
    for name, to in (("python", place.python), ("python3", "python"),
                     (f"python{release}", "python")):
        os.symlink(to, f"{venv}/bin/{name}")
    with open(f"{venv}/pyvenv.cfg", "w", encoding="ascii") as file:
        file.write(f"home = {os.path.dirname(place.python)}\n"
                   f"include-system-site-packages = false\nversion = {release}\n")
    with open("constraints.txt", "w", encoding="utf-8") as file:
        file.write(pins())
    # glibc 2.28 is that of Enterprise Linux 8; the others have newer ones.
    subprocess.run(["uv", "pip", "install", "-q", "--target", packages, "--python-version", release,
                    "--python-platform", f"{platform.machine()}-manylinux_2_28",
                    "--only-binary", ":all:", "--constraint", "constraints.txt", "--no-config",
                    *install.requirements(EXTRAS)], check=True)
    shutil.rmtree(f"{packages}/bin", ignore_errors=True)
    for name in (".lock", ".gitignore", "CACHEDIR.TAG"):
        if os.path.exists(f"{packages}/{name}"):
            os.unlink(f"{packages}/{name}")


def _files(top):
    """[line of %files] of a package's files and of the directories that are its own."""
    lines = []
    for directory, below, names in os.walk(top):
        links = [name for name in below if os.path.islink(os.path.join(directory, name))]
        path = directory[len(top):]
        if OWN_DIRECTORY.match(path):
            lines.append(f"%dir {path}")
        for name in names + links:
            path = os.path.join(directory, name)[len(top):]
            lines.append(("%config(noreplace) " if path == CONFIG else "") + f'"{path}"')
    return lines


if __name__ == "__main__":
    os.umask(0o022)
    if sys.argv[1] == "debian":
        debian()
    else:
        rpm(*sys.argv[2:])
