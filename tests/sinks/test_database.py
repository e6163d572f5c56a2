"""
Where the database for points is, by site.cfg, and what it may answer.
"""
from __future__ import annotations

import email.utils
import re
import time

import pytest
from sink_desk import config_of

from iostats.base.errors import ConfigError
from iostats.sinks.influxdb.database import Where, retry_after_s, where_of


def http_date(after_s):
    return email.utils.formatdate(time.time() + after_s, usegmt=True)


def private(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("text, expected", [
    ("7", 7.0), ("0.5", 0.5), ("86400", 600.0), ("-3", 0.0), ("nan", None), ("soon", None),
    ("", None), (None, None), ("Fri, 20 Nov 2020 10:00:07 GMT", 0.0)])
def test_a_database_may_say_when_to_come_again(text, expected):
    """Not in more than ten minutes, though: what it says may be wrong, too."""
    assert expected == retry_after_s(text)


def test_a_date_to_come_again_is_understood():
    """In an hour: that is ten minutes here."""
    assert 600.0 == retry_after_s(http_date(3600))


def test_jobharvests_four_lines_are_taken(tmp_path):
    """URL, organization, bucket, token."""
    path = private(tmp_path / "jobHarvest.influx",
                   "http://db1:8086\nAstrolabor Zürich\njobs\nt0ken==\n\n")
    assert (Where("http://db1:8086", "Astrolabor Zürich", "jobs", "t0ken==")
            == where_of(config_of(influxdb_file=path)))


@pytest.mark.parametrize("text, mode, said", [
    ("http://db1\norg\nbucket\ntoken\n", 0o640,
     "expected a file of mode 0600, since it has the database's token, got mode 0640; chmod 600"),
    ("http://db1\norg\nbucket\n", 0o600, "expected four lines, the database's URL, organization, "
                                         "bucket and token, got 3"),
    ("http://db1\norg\n\ntoken\n", 0o600, "expected four lines"),
    ("db1:8086\norg\nbucket\ntoken\n", 0o600,
     ":1: expected http://HOST:PORT or https://HOST:PORT, got 'db1:8086'"),
    ("http://db1\norg\nbucket\nt\xf6ken\n", 0o600,
     ":4: expected the database's token, one line, got something else"),
    ("http://db1\norg\nbucket\ntwo words\n", 0o600, ":4: expected the database's token"),
    (None, 0, "cannot be read: No such file or directory; it has the database's token"),
])
def test_an_invalid_file_is_one_line(tmp_path, text, mode, said):
    """Where, what was expected, what is there, what to do."""
    path = tmp_path / "influx"
    if text is not None:
        private(path, text, mode)
    with pytest.raises(ConfigError) as caught:
        where_of(config_of(influxdb_file=path))
    assert str(caught.value).startswith(f"{path}:")
    assert said in str(caught.value)


@pytest.mark.parametrize("options, text, mode, said", [
    ({}, "token\n", 0o644, "expected a file of mode 0600"),
    ({}, "two words\n", 0o600, "expected the database's token, one line, got something else"),
    ({}, "\n", 0o600, "expected the database's token, one line, got nothing"),
    ({"influxdb_url": "db1"}, "token\n", 0o600,
     "the test: [influxdb] url: expected http://HOST:PORT or https://HOST:PORT, got 'db1'"),
    ({"influxdb_bucket": ""}, "token\n", 0o600, "[influxdb] bucket: expected the name of a bucket"),
])
def test_invalid_options_are_one_line(tmp_path, options, text, mode, said):
    """Before the server starts."""
    path = private(tmp_path / "token", text, mode)
    with pytest.raises(ConfigError, match=re.escape(said)):
        where_of(config_of(**{"influxdb_url": "http://db1", "influxdb_token_file": path,
                                       **options}))
