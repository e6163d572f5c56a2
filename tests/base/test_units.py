"""
Numbers for people: exact where there is room, and never 1.67772e+07.
"""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.units import find_zone_format, format_bytes, format_duration


@pytest.mark.parametrize("number, binary, decimal", [
    (0, "0 bytes", "0 bytes"),
    (23, "23 bytes", "23 bytes"),
    (999, "999 bytes", "999 bytes"),
    (1, "1 byte", "1 byte"),
    (1000, "1,000 bytes", "1.0 kB"),
    (1023, "1,023 bytes", "1.0 kB"),
    (1024, "1.0 KiB", "1.0 kB"),
    (37888, "37.0 KiB", "37.9 kB"),
    (999_949, "976.5 KiB", "999.9 kB"),
    (999_951, "976.5 KiB", "1.0 MB"),
    (1_048_524, "1,023.9 KiB", "1.0 MB"),
    (1_048_525, "1.0 MiB", "1.0 MB"),
    (16_777_216, "16.0 MiB", "16.8 MB"),
    (335_544_320, "320.0 MiB", "335.5 MB"),
    (892_338_176, "851.0 MiB", "892.3 MB"),
    (23 * 2**40, "23.0 TiB", "25.3 TB"),
    (37 * 2**60, "37.0 EiB", "42.7 EB"),
    (5000 * 2**60, "5,000.0 EiB", "5,764.6 EB"),
])
def test_bytes_in_the_unit_that_leaves_one_to_four_digits(number, binary, decimal):
    """A rounded number never shows 1024.0 of a smaller unit."""
    assert (binary, decimal) == (format_bytes(number), format_bytes(number, "decimal"))
    assert f"{number:,} byte{'s' * (number != 1)}" == format_bytes(number, "bytes")


def test_851_mib_is_what_sample_job_writes():
    """23 files of 37 MiB, as in the README."""
    assert "851.0 MiB" == format_bytes(23 * 37 * 1024 * 1024)


@given(st.integers(0, 2**80), st.sampled_from(["binary", "decimal", "bytes"]))
def test_no_number_is_printed_with_an_exponent(number, units):
    """The ancestor printed 1.67772e+07."""
    assert re.fullmatch(r"[\d,]+(\.\d)? (bytes?|[KMGTPE]iB|[kMGTPE]B)", format_bytes(number, units))


@pytest.mark.parametrize("seconds, text", [
    (0, "00:00:00"), (0.9, "00:00:00"), (59.999, "00:00:59"), (60, "00:01:00"),
    (1867.4, "00:31:07"), (86_399, "23:59:59"), (86_400, "24:00:00"), (360_000, "100:00:00"),
])
def test_a_duration_in_hours_minutes_and_seconds(seconds, text):
    """Hours go on beyond a day, as in the batch systems."""
    assert text == format_duration(seconds)


def test_a_zone_is_written_where_clocks_were_changed_meanwhile(utc, monkeypatch):
    """Central Europe, on 2026-10-25: 00:50 UTC is 02:50, and 01:10 UTC is 02:10."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    began = 1_792_889_400.0
    form = "%H:%M" + find_zone_format(began, began + 1200)
    assert ["02:50 CEST", "02:10 CET"] == [
        time.strftime(form, time.localtime(began + passed)) for passed in (0, 1200)]
    assert "" == find_zone_format(began + 1200, began
                                  + 7200) == find_zone_format(began, None) == find_zone_format(
        began, 1e18)
