"""Which addresses may ask, and which requests come from a page in a browser."""
from __future__ import annotations

import contextlib

import pytest

from iostats.collector import access

DEFAULT = access.parse_networks(["127.0.0.0/8", "::1"])


@pytest.mark.parametrize("address, ranges, is_in", [
    ("127.0.0.1", DEFAULT, True), ("127.255.255.254", DEFAULT, True), ("::1", DEFAULT, True),
    ("128.0.0.1", DEFAULT, False), ("::2", DEFAULT, False), ("10.0.0.7", DEFAULT, False),
    ("::ffff:127.0.0.1", DEFAULT, True), ("::ffff:10.0.0.7", DEFAULT, False),
    ("::ffff:7f00:1", DEFAULT, True), ("::127.0.0.1", DEFAULT, False),
    ("fe80::23%eth0", access.parse_networks(["fe80::/10"]), True),
    ("10.0.5.23", access.parse_networks(["10.0.5.0/24"]), True),
    ("10.0.6.23", access.parse_networks(["10.0.5.0/24"]), False),
    ("10.0.5.23", access.parse_networks(["::ffff:10.0.5.0/120"]), True),
    ("10.0.5.23", access.parse_networks(["::/0"]), False),
    ("::5", access.parse_networks(["0.0.0.0/0"]), False),
    ("2001:db8::41", access.parse_networks(["2001:db8::/64"]), True), ("127.0.0.1", [], False),
    ("", DEFAULT, False), ("localhost", DEFAULT, False), ("127.1", DEFAULT, False)])
def test_an_address_is_in_its_ranges_and_in_no_others(address, ranges, is_in):
    assert is_in == access.is_in(address, ranges)


@pytest.mark.parametrize("word", ["10.0.5.1/24", "10.0.0.0/33", "mds1", "10.0.5", "", "*", "::g",
                                  "10.0.0.0/255.0.255.0"])
def test_a_range_that_is_none_or_has_bits_beyond_its_own_is_an_error(word):
    with pytest.raises(ValueError):
        access.parse_networks(["127.0.0.1", word])


@pytest.mark.parametrize("host, origin, site, is_ours", [
    ("localhost:8980", "", "", True), ("LocalHost", "", "", True), ("mds1.", "", "", True),
    ("127.0.0.1:8980", "", "", True), ("[::1]:8980", "", "", True), ("[::1]", "", "", True),
    ("10.0.5.23", "", "", True), ("", "", "", True), ("localhost", "", "none", True),
    ("mds1.evil.example:8980", "", "", False), ("evil.example", "", "", False),
    ("localhost.evil.example", "", "", False), ("localhost@evil.example", "", "", False),
    ("127.0.0.1.evil.example", "", "", False),
    ("[::1].evil", "", "", False), ("[::1].evil:8980", "", "", False), ("[::1]8980", "", "", False),
    ("[localhost]", "", "", False), ("localhost:evil", "", "", False), ("[::1", "", "", False),
    ("127.0.0.1:80:80", "", "", False), ("[[::1]]", "", "", False), ("[]", "", "", False),
    ("localhost", "http://localhost:8980", "", False), ("localhost", "null", "", False),
    ("localhost", "", "cross-site", False), ("localhost", "", "same-origin", False)])
def test_a_page_in_a_browser_is_refused_and_a_program_is_not(host, origin, site, is_ours):
    """With DNS rebinding the name is the attacker's; a page cannot hide its Origin."""
    with contextlib.nullcontext() if is_ours else pytest.raises(access.Forbidden):
        access.check_headers(host, origin, site, ["localhost", "mds1"])
