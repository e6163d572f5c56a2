"""
Where the database for points is, by site.cfg, and what it may answer.
"""
from __future__ import annotations

import email.utils
import re
import ssl
import time

import pytest
from etcd_desk import certificates
from sink_desk import Answering, config_of

from iostats.base.errors import ConfigError
from iostats.sinks.influxdb.database import (
    ACCEPTED,
    LATER,
    Answer,
    Where,
    load_address,
    retry_after_s,
    write,
)


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
            == load_address(config_of(influxdb_file=path)))


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
        load_address(config_of(influxdb_file=path))
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
        load_address(config_of(**{"influxdb_url": "http://db1", "influxdb_token_file": path,
                                       **options}))


def test_a_write_has_the_path_of_the_url_and_headers_in_any_case_count():
    """Behind a proxy: a prefix of the path, and names of headers in lower case."""
    database = Answering((429, {"retry-after": "37"}, b"slow\ndown"))
    try:
        where = Where(f"{database.url}/influx/", "Astrolabor Zürich", "jobs 23", "t0ken==")
        answer = write(where, [b"lustre a=23i 1", b"lustre a=37i 2"], 5, "")
    finally:
        database.close()
    assert Answer(LATER, "answers 429 slow down", 37.0) == answer
    [(path, authorization, lines)] = database.writes
    assert "/influx/api/v2/write?org=Astrolabor+Z%C3%BCrich&bucket=jobs+23&precision=ms" == path
    assert ("Token t0ken==", ["lustre a=23i 1", "lustre a=37i 2"]) == (authorization, lines)


@pytest.mark.parametrize("url, why", [
    ("http://:8086", "no host in the URL"), ("http://db1:port", "Port could not be cast"),
    ("http://db1\x7f:8086", "URL can't contain control characters"),
    ("https://127.0.0.1:{port}", "SSL")])
def test_a_url_that_cannot_be_used_is_tried_again_later(url, why):
    """The administrator sees why; no point is lost."""
    database = Answering()
    try:
        port = database.url.rpartition(":")[2]
        answer = write(Where(url.format(port=port), "o", "b", "t"), [b"lustre a=1i 1"], 5, "")
    finally:
        database.close()
    assert LATER == answer.kind and answer.why.startswith("not reached: ") and why in answer.why


def test_https_is_checked_with_the_ca_of_site_cfg(tmp_path):
    """Without it the certificate is not trusted, and nothing is sent."""
    ca, certificate, key = certificates(tmp_path)
    database = Answering()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    database.server.socket = context.wrap_socket(database.server.socket, server_side=True)
    where = Where(database.url.replace("http:", "https:"), "o", "b", "t")
    try:
        untrusted = write(where, [b"lustre a=23i 1"], 5, "")
        trusted = write(where, [b"lustre a=37i 2"], 5, ca)
    finally:
        database.close()
    assert LATER == untrusted.kind and "CERTIFICATE_VERIFY_FAILED" in untrusted.why
    assert Answer(ACCEPTED, "", None) == trusted
    assert [["lustre a=37i 2"]] == [lines for _, _, lines in database.writes]
