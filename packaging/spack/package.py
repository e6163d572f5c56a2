# The user side of iostats for Spack 1.0 and newer.  `make packages` writes it to dist/spack/ with
# the checksum of the source distribution: docs/how-to/modules.md.
import os

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyIostats(PythonPackage):
    """iostats: what a job did to the Lustre file systems of an HPC cluster."""

    manual_download = True
    url = f"file://{os.getcwd()}/iostats-@VERSION@.tar.gz"
    license("MIT")

    version("@VERSION@", sha256="@SHA256@")

    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-hatchling@1.27:", type="build")
    depends_on("py-clustershell@1.9:", type=("build", "run"))
    depends_on("py-httptools@0.6:", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type=("build", "run"))
    depends_on("py-msgspec@0.18:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-rich@13:", type=("build", "run"))
    depends_on("py-tabulate@0.9:", type=("build", "run"))
    depends_on("py-uvloop@0.19:", type=("build", "run"))

    import_modules = ["iostats", "iostats.node", "iostats.report"]
