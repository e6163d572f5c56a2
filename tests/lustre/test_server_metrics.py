"""brw_stats, stats of services, and copytools: real files, and those of the print statements."""
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_files import service_stats
from trees import shared

from iostats.lustre.server_metrics import (
    COUNTERS,
    SERVICE_METRICS,
    TARGET_METRICS,
    parse_brw_stats,
    parse_hsm_agents,
    parse_service_stats,
    subtract,
)


def test_a_capture_of_2_16():
    """After the first workload: 11 reads, of which 8 of 16 pages, and 10 writes."""
    assert {"read_rpcs": 11, "small_read_rpcs": 8, "write_rpcs": 10, "small_write_rpcs": 8,
            "disk_reads": 11, "fragmented_disk_reads": 0, "disk_writes": 10,
            "fragmented_disk_writes": 0} == parse_brw_stats(shared(
                "captures", "2.16.1", "s02_after_w1", "proc", "fs", "lustre", "osd-ldiskfs",
                "lustre-OST0000", "brw_stats").read_text())


def test_a_file_of_zfs_2_10_has_no_fragmented_requests():
    """Rows 1 to 16: 13 + 10 reads; 153 + 157 + 358 + 679 + 1367 writes."""
    found = parse_brw_stats(shared("fixtures", "HewlettPackard__lustre_exporter", "2.10.1",
                                   "osd_brw_stats.txt").read_text())
    assert {"read_rpcs": 23, "small_read_rpcs": 23, "write_rpcs": 4_298_712,
            "small_write_rpcs": 2714} == found


def brw_stats(*rows, title="disk fragmented I/Os   ios   % cum % |  ios         % cum %"):
    """Rows of (label, reads, writes), as display_brw_stats() of 2.16.1 prints them."""
    return ("snapshot_time:            1795225389.470130370 secs.nsecs\n\n"
            f"{' ':>26} read      |     write\n{title}\n" + "".join(
                f"{label}:\t\t{reads:>10} {41:>3} {43:>3}   | {writes:>4} {47:>3} {53:>3}\n"
                for label, reads, writes in rows))


def test_requests_in_several_pieces_are_fragmented():
    found = parse_brw_stats(brw_stats(("1", 23, 37), ("2", 41, 0), ("31", 7, 59)))
    assert (71, 48, 96, 59) == tuple(found[name] for name in (
        "disk_reads", "fragmented_disk_reads", "disk_writes", "fragmented_disk_writes"))


def test_a_size_with_a_suffix_is_not_small():
    found = parse_brw_stats(brw_stats(("16", 23, 0), ("1K", 37, 0),
                                      title="pages per bulk r/w     rpcs  % cum % |"))
    assert (60, 23) == (found["read_rpcs"], found["small_read_rpcs"])


def test_without_requests_all_are_0():
    assert {0} == {*parse_brw_stats(brw_stats()).values()}


@pytest.mark.parametrize("parse, text, why", [
    (parse_brw_stats, "", "expected snapshot_time, got ''"),
    (parse_brw_stats, brw_stats() + "16: a word\n", "expected counts of reads and writes"),
    (parse_hsm_agents, "uuid=23\n", "expected a copytool and its requests, got 'uuid=23'")])
def test_what_is_expected_is_in_the_error(parse, text, why):
    with pytest.raises(ValueError, match=why):
        parse(text)


def test_real_stats_of_services():
    """ost_create and mdt of 2.14.0_ddn145; ost_io has had no request."""
    text = shared("fixtures", "whamcloud__lustrefs-exporter", "2.14.0_ddn145",
                  "lctl_server_params.txt").read_text()
    files = dict(re.findall(r"^(\w+\.\w+\.\w+)\.stats=\n((?:[a-z_]+ .*\n)*)", text, re.MULTILINE))
    assert {"requests": 455_710, "wait_us": 16_649_781, "queued": 102, "lock_requests": 0} == (
        parse_service_stats(files["ost.OSS.ost_create"]))
    assert {"requests": 171_898, "wait_us": 9_524_258, "queued": 1602, "lock_requests": 6} == (
        parse_service_stats(files["mds.MDS.mdt"]))
    assert {0} == {*parse_service_stats(files["ost.OSS.ost_io"]).values()}


def test_copytools_are_added_up():
    text = ("uuid=a-1 archive_id=ANY requests=[current:3 ok:23 errors:7]\n"
            "uuid=b-2 archive_id=1,2 requests=[current:0 ok:37 errors:0]\n")
    assert {"hsm_agents": 2, "hsm_done": 60, "hsm_failed": 7} == parse_hsm_agents(text)
    assert {"hsm_agents": 0, "hsm_done": 0, "hsm_failed": 0} == parse_hsm_agents("")


@given(st.text(max_size=300))
def test_other_texts_are_understood_or_refused(text):
    for parse in (lambda one: parse_brw_stats("snapshot_time" + one), parse_service_stats,
                  parse_hsm_agents):
        try:
            found = parse(text)
        except ValueError:
            continue
        assert all(value >= 0 for value in found.values())


def test_the_names_are_those_of_the_tables():
    names = {metric.name for metric in TARGET_METRICS + SERVICE_METRICS}
    assert {*parse_brw_stats(brw_stats()), *parse_hsm_agents(""), *COUNTERS,
            *parse_service_stats(service_stats(1, 1, 1))} <= names


def test_a_counter_that_is_new_or_was_reset_has_gained_nothing_that_is_known():
    assert {} == subtract(None, {"requests": 60})
    assert {"requests": 37} == subtract({"requests": 23, "locks": 7},
                                        {"requests": 60, "locks": 5, "wait_us": 41})
    assert {} == subtract({"read_rpcs": 41, "write_rpcs": 7}, {"read_rpcs": 40, "write_rpcs": 9})
