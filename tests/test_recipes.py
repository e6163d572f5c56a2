"""
Recipes for Spack, EasyBuild, containers and Ansible: they agree with what the packages need and
have.  docs/how-to/modules.md names what was run by hand.
"""
from __future__ import annotations

import hashlib
import re
import subprocess
import sys

import yaml
from processes import REPOSITORY

from iostats import __version__
from iostats.base.options import OPTIONS

sys.path.insert(0, str(REPOSITORY / "packaging"))
import install

PACKAGING = REPOSITORY / "packaging"


def test_recipes_have_version_and_checksums_of_what_was_built(tmp_path):
    (tmp_path / "iostats-23.37.41.tar.gz").write_bytes(b"sources")
    (tmp_path / "iostats-23.37.41-py3-none-any.whl").write_bytes(b"wheel")
    subprocess.run([PACKAGING / "recipes", tmp_path.name], cwd=tmp_path.parent, check=True)
    spack = (tmp_path / "spack/py_iostats/package.py").read_text()
    assert f'version("23.37.41", sha256="{hashlib.sha256(b"sources").hexdigest()}")' in spack
    easyconfig = (tmp_path / "iostats-23.37.41-GCCcore-13.3.0.eb").read_text()
    values = {}
    exec(easyconfig, values)                        # as EasyBuild reads it
    assert ("23.37.41", [hashlib.sha256(b"wheel").hexdigest()], "server") == (
        values["version"], values["checksums"], values["use_pip_extras"])
    compile(spack, "package.py", "exec")
    msgspec = (tmp_path / "spack/py_msgspec/package.py").read_text()
    compile(msgspec, "package.py", "exec")
    assert re.search('sha256="(.*)"', msgspec)[1] in (
        REPOSITORY / "tools/requirements-ci.txt").read_text()
    notes = (tmp_path / "NOTES.md").read_text()
    assert notes.startswith(f"## {__version__}") and 1 == len(re.findall("(?m)^## ", notes))
    assert "@" not in re.sub(r"@[\d.]+:", "", "".join(re.findall(r'"[^"]*"', spack)))


def test_each_file_with_a_version_has_that_of_the_program():
    """docs/how-to/release.md names these; a page that names a file of `dist/` is one, too."""
    for path, pattern in (("CITATION.cff", r"(?m)^version: (.*)$"),
                          ("CHANGELOG.md", r"(?m)^## ([\d.]+)"),
                          ("packaging/debian/changelog", r"^iostats \(([^)]*)\)"),
                          ("packaging/rpm/iostats.spec", r"(?m)^Version: +(.*)$"),
                          ("packaging/rpm/iostats.spec", r"%changelog\n\*.* - (.*)-1\n")):
        assert __version__ == re.search(pattern, (REPOSITORY / path).read_text())[1], path
    for page in (REPOSITORY / "docs/how-to").glob("*.md"):
        named = re.findall(r"iostats(?:-|/)(\d+\.\d+\.\d+)", page.read_text())
        assert {__version__} >= set(named), page.name


def test_spack_has_the_requirements_of_the_servers_and_commands():
    spack = dict(re.findall(r'depends_on\("py-([\w-]+)(?:@([\d.]+):)?", type=\("build", "run"\)\)',
                            (PACKAGING / "spack/package.py").read_text()))
    wanted = {re.match(r"[\w-]+", text)[0].lower(): (re.search(r">=([\d.]+)", text) or ["", ""])[1]
              for text in install.requirements(["server"])}
    assert wanted == spack


def test_the_packages_have_the_libraries_of_every_store_and_sink():
    """They have no pip that could install one later."""
    import stage
    assert {"postgresql", "prometheus", "server", "site", "web"} <= set(stage.EXTRAS)


def test_the_containers_have_the_default_port_and_the_libraries_of_site_and_pages():
    port = OPTIONS["site.port"].default
    image = (PACKAGING / "container/Containerfile").read_text()
    assert f"\nEXPOSE {port} " in image
    assert {*install.ROLES["site"].extras, *install.ROLES["web"].extras, "postgresql"} <= set(
        re.search(r"/source\[([\w,]+)\]", image)[1].split(","))
    services = yaml.safe_load((PACKAGING / "container/compose.yaml").read_text())["services"]
    assert [f"{port}:{port}"] == services["site"]["ports"]
    variables = {name for service in services.values() for name in service["environment"]}
    ours = {name for name in variables if not name.startswith(("POSTGRES_", "PGPASSWORD"))}
    assert ours <= {f"IOSTATS_{name.upper().replace('.', '_')}" for name in OPTIONS}


def test_the_ansible_role_starts_the_units_of_each_package():
    units = yaml.safe_load((PACKAGING / "ansible/iostats/defaults/main.yml").read_text())[
        "iostats_units"]
    roles = {"node": ("node", "reader"), "client": ("login",)}
    assert units == {package: [install.ROLES[role].starts for role in roles.get(package, [package])
                               if install.ROLES[role].starts] for package in units}
    debian = re.findall(r"(?m)^Package: iostats-(\w+)", (PACKAGING / "debian/control").read_text())
    assert {*debian} - {"common", "libs"} == set(units)
