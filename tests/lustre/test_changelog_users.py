"""changelog_users, of Lustre 2.10 to 2.17."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.lustre.changelog_users import ChangelogUser, parse_changelog_users

# By the print statements of 2.10.8, 2.12.9, and 2.15.8.
TEXTS = {
    "2.10": "current index: 2300\nID    index\ncl1   2263\ncl23  1700\n",
    "2.12": "current index: 2300\nID    index (idle seconds)\ncl1   2263 (41)\ncl23  1700 (5300)\n",
    "2.15": (f"current_index: 2300\n{'ID':<24} {'index':>10} (idle) mask\n"
             f"{'cl1':<24} {2263:>10} (41)\n"
             f"{'cl23-robinhood':<24} {1700:>10} (5300) mask=CREAT,UNLNK,SATTR\n")}


@pytest.mark.parametrize("release", TEXTS)
def test_each_user_has_what_it_has_not_cleared(release):
    idle = (None, None) if release == "2.10" else (41, 5300)
    name = "cl23-robinhood" if release == "2.15" else "cl23"
    assert {"cl1": ChangelogUser(37, idle[0]), name: ChangelogUser(600, idle[1])} == (
        parse_changelog_users(TEXTS[release]))


def test_without_users_there_are_none():
    assert {} == parse_changelog_users("current_index: 0\nID  index (idle) mask\n")


@pytest.mark.parametrize("text, why", [
    ("", "expected the current index and a heading, got ''"),
    ("current_index: -23\nID\n", "expected the current index"),
    ("current_index: 23\n", "expected the current index and a heading"),
    ("current_index: 23\nID index\ncl1\n", "expected a user, .*, got 'cl1'")])
def test_what_is_expected_is_in_the_error(text, why):
    with pytest.raises(ValueError, match=why):
        parse_changelog_users(text)


@given(st.text(max_size=200))
def test_other_texts_are_understood_or_refused(text):
    for prefix in ("", "current_index: 23\nID index\n"):
        try:
            found = parse_changelog_users(prefix + text)
        except ValueError:
            continue
        assert all(user.unread >= 0 for user in found.values())
