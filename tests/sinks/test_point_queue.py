"""
Points that wait for the database: bounds, and a directory that cannot be used.
"""
from __future__ import annotations

import pytest

from iostats.base.errors import ConfigError
from iostats.sinks.influxdb.sender import PointQueue


def test_points_put_aside_are_bounded_too(tmp_path):
    """A tenth of the spool; the newest stay."""
    spool = PointQueue(str(tmp_path), 100_000)
    for number in range(40):
        spool.put_aside([b"%d" % number * 500])
    names = sorted((tmp_path / "refused").iterdir())
    assert sum(path.stat().st_size for path in names) <= 10_000
    assert names[-1].read_bytes().startswith(b"3939")
    assert 40 == spool.refused


def test_a_directory_that_cannot_be_used_is_one_line(tmp_path):
    """Here: a file stands in its place."""
    (tmp_path / "spool").write_text("")
    with pytest.raises(ConfigError, match=r"name another directory .*influxdb\] spool_dir"):
        PointQueue(str(tmp_path / "spool" / "points"), 65536)
