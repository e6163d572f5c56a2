"""
A real ldmsd, of the release that is on PATH, and the checker agree.
"""

import subprocess

import pytest
from ldms_desk import real_version
from ldmsd_refusals import ACCEPTED, TABLE

from iostats_ldms.statements.dialect import get_dialect

pytestmark = pytest.mark.ldms


def real_release():
    try:
        return get_dialect(real_version()).release
    except OSError:
        pytest.skip("no ldmsd on PATH")


def exit_status(tmp_path, lines, seconds):
    """Of ldmsd -c; None where it runs on."""
    (tmp_path / "a.conf").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with subprocess.Popen(["ldmsd", "-F", "-c", "a.conf", "-l", "a.log", "-r", "a.pid", "-n", "a"],
                          cwd=tmp_path, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as daemon:
        try:
            return daemon.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            daemon.kill()


def test_a_real_ldmsd_refuses_the_same(tmp_path):
    release = real_release()
    for lines, old, new, _ in TABLE:
        errno = old if release == "4.4" else new
        if errno:
            assert errno == exit_status(tmp_path, lines, 20), lines


def test_a_real_ldmsd_accepts_the_same(tmp_path):
    release = real_release()
    others = [lines for lines, old, new, _ in TABLE if not (old if release == "4.4" else new)]

    assert exit_status(tmp_path, ACCEPTED, 2) is None
    for lines in others:
        assert exit_status(tmp_path, lines, 0.3) is None, lines
