# A library of iostats that Spack lacks (July 2026).  `make packages` copies it to dist/spack/.
from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyMsgspec(PythonPackage):
    """Encodes and decodes JSON and MessagePack, and checks types."""

    homepage = "https://jcristharif.com/msgspec/"
    pypi = "msgspec/msgspec-0.20.0.tar.gz"
    license("BSD-3-Clause")

    version("0.20.0", sha256="692349e588fde322875f8d3025ac01689fead5901e7fb18d6870a44519d62a29")

    depends_on("c", type="build")
    depends_on("python@3.9:", type=("build", "link", "run"))
    depends_on("py-setuptools@80:", type="build")
    depends_on("py-setuptools-scm@8:", type="build")
