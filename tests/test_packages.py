"""
The wheel and the source distribution: complete, the same bytes from each build, and usable where
they are installed.  `make packages` runs these tests on the files in dist/, named by IOSTATS_DIST.
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from processes import AFTER, BEFORE, REPOSITORY, checked_out_commit, new_job, write_tree

from iostats import __version__

WHEEL, SOURCES = f"iostats-{__version__}-py3-none-any.whl", f"iostats-{__version__}.tar.gz"
# What a checkout has and no user of a source distribution needs.
NOT_IN_SOURCES = {".ci/run", ".gitattributes"}
GENERATED = {"__pycache__", ".git", ".venv", ".hypothesis", "build", "dist"}


def run(*words, **options):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done
    return done.stdout


def build(checkout, directory, *targets, umask=0o022):
    """Build `targets` (all by default) of a checkout or of unpacked sources."""
    run("sh", "-c", f"umask {umask:03o}; exec \"$@\"", "sh", sys.executable, "-m", "hatchling",
        "build", "-d", directory, *targets, cwd=checkout)


def files(*directories):
    """[path] of the files of the checkout, or in `directories` of it, without generated ones."""
    paths = []
    for top in map(REPOSITORY.joinpath, directories or ["."]):
        for directory, below, names in os.walk(top):
            below[:] = [name for name in below if name not in GENERATED
                        and not name.endswith(("_cache", ".egg-info"))]
            paths += [os.path.relpath(os.path.join(directory, name), REPOSITORY)
                      for name in names]
    return [path for path in paths if path not in (".coverage", ".git", "iostats/commit.txt")]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    if "IOSTATS_DIST" in os.environ:
        return REPOSITORY / os.environ["IOSTATS_DIST"]
    directory = tmp_path_factory.mktemp("dist")
    build(REPOSITORY, directory)
    return directory


@pytest.fixture(scope="module")
def installed(dist, tmp_path_factory):
    """A virtual environment with the wheel alone."""
    directory = tmp_path_factory.mktemp("wheel") / "venv"
    run(sys.executable, "-m", "venv", directory)
    run(directory / "bin/python", "-m", "pip", "install", "-q", "--no-deps", "--no-index",
        dist / WHEEL)
    return directory


def test_two_builds_are_the_same_bytes(dist, tmp_path):
    """With other times and modes of the files, in another directory."""
    copy = tmp_path / "another directory"
    for path in files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / path, copy / path, follow_symlinks=False)
        if not (copy / path).is_symlink():
            (copy / path).chmod(0o700 if (REPOSITORY / path).stat().st_mode & 0o100 else 0o600)
        os.utime(copy / path, (1_234_567_890, 1_234_567_890), follow_symlinks=False)
    with zipfile.ZipFile(dist / WHEEL) as wheel:            # the copy is no git checkout
        (copy / "iostats/commit.txt").write_bytes(wheel.read("iostats/commit.txt"))
    build(copy, tmp_path / "again", umask=0o077)
    for name in (WHEEL, SOURCES):
        assert (dist / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_wheel_from_the_sources_is_that_from_the_checkout(dist, tmp_path):
    with tarfile.open(dist / SOURCES) as archive:
        archive.extractall(tmp_path)
    build(tmp_path / f"iostats-{__version__}", tmp_path / "built", "-t", "wheel")
    assert (dist / WHEEL).read_bytes() == (tmp_path / "built" / WHEEL).read_bytes()


def test_the_wheel_has_all_that_is_no_test(dist):
    names = set(zipfile.ZipFile(dist / WHEEL).namelist())
    assert set() == set(files("iostats", "iostats_ldms", "simldms", "simlustre")) - names
    shared = f"iostats-{__version__}.data/data/share/iostats/"
    expected = [*files("docs", "hooks", "systemd", "dashboards"), "site.cfg", "sample_job.sh",
                "CHANGELOG.md"]
    assert len(expected) > 30
    assert [] == [path for path in expected if shared + path not in names]
    assert f"iostats-{__version__}.dist-info/licenses/LICENSE" in names


def test_the_sources_have_all_files_of_the_checkout(dist):
    with tarfile.open(dist / SOURCES) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert NOT_IN_SOURCES >= set(files()) - names


def test_the_metadata_name_the_licence(dist):
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        text = wheel.read(f"iostats-{__version__}.dist-info/METADATA").decode()
    assert "\nLicense-Expression: MIT\n" in text
    assert "\nRequires-Dist:" not in "".join(
        line for line in text.splitlines(True) if "extra ==" not in line)


def test_a_wheel_alone_measures_a_node(installed, tmp_path):
    """Without a package beside it; the version has the commit that it was built from."""
    iostats = installed / "bin/iostats"
    assert f"iostats {__version__}{checked_out_commit()}\n" == run(iostats, "--version",
                                                                    cwd=tmp_path)
    root, state = tmp_path / "root", tmp_path / "state"
    write_tree(root, **BEFORE)
    on_node = ("--node", "nid00023", "--root", root, "--job", "4711", "--state-dir", state)
    run(iostats, "start", *on_node, cwd=tmp_path)
    write_tree(root, **AFTER)
    assert '"read_bytes"' in run(iostats, "show", "--json", *on_node, cwd=tmp_path)


def test_the_demo_runs_from_a_wheel(installed, tmp_path):
    """Its libraries are those of the tests' environment, in which this checkout has no place."""
    [packages] = installed.glob("lib/python3*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    output = run(installed / "bin/python", "-m", "simlustre.demo", "--no-fuse", "--job", new_job(),
                 cwd=tmp_path)
    assert re.search(r"\| scratch +\| 851\.0 MiB +\| 851\.0 MiB +\|", output)
    assert len(list((tmp_path / "build/demo").glob("*.html"))) == 1
    paths = run(installed / "bin/python", "-c", "import iostats; print(iostats.__file__)",
                cwd=tmp_path)
    assert paths.startswith(str(installed))


def test_the_documents_of_a_wheel_are_pages(installed, tmp_path):
    packages = run(sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    site = next((installed / "lib").glob("python3*")) / "site-packages"
    (site / "packages_of_the_tests.pth").write_text(packages)
    names = run(installed / "bin/python", "-c", "import iostats; print(iostats.__file__); "
                "from iostats.web import docs_page; print(*sorted(docs_page.list_documents()))",
                cwd=tmp_path).split()
    assert Path(names[0]).is_relative_to(installed)
    assert names[1:] == sorted(str(path.relative_to(REPOSITORY / "docs"))[:-3]
                               for path in (REPOSITORY / "docs").rglob("*.md"))
