#!/usr/bin/env python3
"""
docs/reference/licences.md: under which licence each package is that CI installs, from what is
installed.

    .venv/bin/python tools/licences.py > docs/reference/licences.md  after `make lock`, `make setup`

A package that is not installed here (of another Python, of another system) keeps its line.
"""

import re
import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from iostats import sinks

HERE = Path(__file__).resolve().parent.parent
LOCK, LIST = HERE / "tools" / "requirements-ci.txt", HERE / "docs" / "reference" / "licences.md"

HEAD = """\
# Licences of the packages that are used

After this page you know the licence of each package that iostats installs, and what it is for.

iostats has none of their code: they are installed from PyPI, and a compute node needs none of them.
`tools/licences.py` makes this list of all packages in `tools/requirements-ci.txt` from their own
metadata; `tests/test_exposure.py` compares it with what is installed.  munge's library
(LGPL-3.0) is called where site.cfg names munge, libfuse (LGPL-2.1) only by the simulated mount.

| package | licence | for |
|---|---|---|
"""
_FAMILIES = {"MIT": "MIT", "BSD": "BSD", "Apache": "Apache", "MPL": "MPL|Mozilla",
             "LGPL": "LGPL|Lesser", "GPL": r"(?<!L)GPL(?!\w)|GNU General", "PSF": "PSF|Python Soft",
             "ISC": "ISC", "MPICH": "MPICH", "Unlicense": "Unlicense|Public Domain"}
_FOR = {"clustershell": "server", "httptools": "server", "msgspec": "server", "numpy": "server",
        "rich": "server", "tabulate": "server", "uvloop": "server", "alembic": "[site]",
        "sqlalchemy": "[site]", "psycopg": "[postgresql]", "psycopg-binary": "[postgresql]",
        "mpi4py": "[mpi]",
        "jinja2": "server", "markdown-it-py": "[web]", "starlette": "[web]", "uvicorn": "[web]",
        "cairosvg": "[charts]", "mpich": "[mpi]", **{
            sinks.get_package(sinks.find_sink(name)).lower().replace("_", "-"): f"[{name}]"
            for name in sinks.list_names()}, "mfusepy": "the demo and tests",
        "setuptools": "building"}


def of(package):
    """The licence by a package's metadata: its expression, its classifiers or its own words."""
    expression = package.get("License-Expression")
    named = [one.rpartition(" :: ")[2] for one in package.get_all("Classifier") or ()
             if one.startswith("License :: ") and not one.endswith("OSI Approved")]
    words = (package.get("License") or "").strip().split("\n")[0][:60]
    return (expression or ", ".join(sorted(named)) or words or "not stated").replace("|", "/")


def families(licence):
    """Which of the well-known licences a licence's words mean."""
    return {name for name, form in _FAMILIES.items() if re.search(form, licence)}


def listed(text):
    """{package: (licence, for what)} of docs/reference/licences.md."""
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    return {name: (licence, what) for name, licence, what in rows if name != "package"}


def main():
    before = listed(LIST.read_text()) if LIST.exists() else {}
    names = sorted({line.partition("==")[0] for line in LOCK.read_text().splitlines()
                    if re.match(r"[a-z0-9-]+==", line)})
    print(HEAD, end="")
    for name in names:
        try:
            licence = of(metadata.metadata(name))
        except metadata.PackageNotFoundError:
            licence = before.get(name, ("not installed here: unknown", ""))[0]
        print(f"| {name} | {licence} | {_FOR.get(name, 'another of these, or tests')} |")


if __name__ == "__main__":
    sys.exit(main())
