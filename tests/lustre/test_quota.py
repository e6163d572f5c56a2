"""Limits of users, groups and projects, of Lustre 2.10 to 2.17."""
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_files import quota_text
from trees import shared

from iostats.lustre.capacity import BYTES
from iostats.lustre.quota import (
    PROJECT,
    USER,
    Quota,
    compute_granted_percent,
    is_exhausted,
    parse_quotas,
    parse_records,
)

DEFAULT = 1 << 48
T = 1_795_333_400


@pytest.mark.parametrize("width", [20, 12])
def test_ids_with_a_limit_are_read_in_the_form_of_each_release(width):
    """By the print statements of 2.10.8 to 2.16.1, and of 2.17.0."""
    text = quota_text((4711, 53, 41, 43, T), (4712, 0, 0, 23, 0), (4713, 37, 0, 7, 0), width=width)
    assert [(4711, 43, 41, 53, T), (4713, 7, 0, 37, 0)] == parse_records(text)


def test_an_id_with_the_default_has_the_limits_of_id_0_wherever_that_stands():
    """A directory of ZFS has no order."""
    records = [(4711, 0, 0, 43, DEFAULT), (0, 53, 41, 0, 604_800), (4712, 0, 0, 23, 0)]
    assert [(4711, 43, 41, 53, 0)] == parse_records(quota_text(*records))
    assert [(4711, 43, 41, 53, 0)] == parse_records(quota_text(*reversed(records)))
    assert [(4711, 43, 0, 59, 0)] == parse_records(
        quota_text((0, 53, 41, 0, 0), (4711, 59, 0, 43, DEFAULT)))


def test_a_grace_time_that_has_not_begun_is_none():
    assert [(4711, 41, 41, 53, 0)] == parse_records(quota_text((4711, 53, 41, 41, T)))


def test_real_files_without_limits_have_none():
    """2.14.0_ddn145: user, group and project, of the file system and of two pools."""
    text = shared("fixtures", "whamcloud__lustrefs-exporter", "2.14.0_ddn145",
                  "lctl_server_params.txt").read_text()
    files = re.findall(r"^qmt\.fs-QMT0000\.\S+\.glb-\w+=\n((?:global_|- id|  limits).*\n"
                       r"(?:- id.*\n|  limits.*\n)*)", text, re.MULTILINE)
    assert 12 == len(files)
    assert all([] == parse_records(file) for file in files)
    limited = files[0].replace("hard:            0", "hard:           53").replace(
        "id:      0", "id:      4711")
    assert [(4711, 0, 0, 53, 0)] == parse_records(limited)


@pytest.mark.parametrize("text, why", [
    ("", "expected global_pool or global_index_copy, got ''"),
    ("not supported\n", "expected global_pool"),
    ("global_pool0_dt_usr\n- id: 23\n", "expected an id and its limits, got '- id: 23"),
    (quota_text((4711, 53, 41, 43, T)) + "x", "got 'x'"),
    (quota_text((4711, 53, 41, 43, T)).replace("53", "-3"), "expected an id and its limits")])
def test_what_is_expected_is_in_the_error(text, why):
    with pytest.raises(ValueError, match=why):
        parse_records(text)


@given(st.text(max_size=200))
def test_other_texts_are_understood_or_refused(text):
    try:
        found = parse_records("global_pool0_md_grp\n" + text)
    except ValueError:
        return
    assert all(soft or hard for _, _, soft, hard, _ in found)


@pytest.mark.parametrize("soft, hard, granted, grace_end, expected", [
    (0, 53, 52, 0, False), (0, 53, 53, 0, True), (0, 53, 59, 0, True),
    (41, 0, 43, T, True), (41, 0, 43, T + 1, False), (41, 0, 43, 0, False),
    (41, 53, 41, T, False), (41, 53, 43, T, True)])
def test_no_more_is_granted_at_the_hard_limit_or_after_the_grace_time(soft, hard, granted,
                                                                      grace_end, expected):
    quota = Quota("scratch", "", USER, 4711, BYTES, granted, soft, hard, grace_end)
    assert expected == is_exhausted(quota, T)


def test_the_share_is_of_the_hard_limit_or_else_of_the_soft_one():
    quota = Quota("scratch", "", USER, 4711, BYTES, 41, 50, 0, 0)
    assert (82.0, 41.0) == (compute_granted_percent(quota),
                            compute_granted_percent(quota._replace(hard=100)))


def test_a_file_is_of_a_pool_and_a_kind_and_its_space_is_in_kib():
    text = quota_text((23, 1 << 63, 41, 43, T))
    assert [Quota("my-fs", "flash", PROJECT, 23, BYTES, 43 << 10, 41 << 10, 1 << 62, T)] == (
        parse_quotas(text, "my-fs", "dt-flash", "glb-prj"))
