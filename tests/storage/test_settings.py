"""Settings of agents, as etcd and the disk have them: values alone."""
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import StateError
from iostats.base.options import OPTIONS, RUN_TIME_OPTIONS
from iostats.storage.settings import (
    NOTHING,
    GroupSettings,
    WrongSettings,
    check_values,
    find_group,
    load_settings,
    store_settings,
)

GROUPS = [{"name": "home", "hosts": ["oss23", "oss37"], "settings": {"harvest.interval": "23"}},
          {"name": "all", "hosts": ["oss37", "oss41"], "settings": {
              "harvest.interval": "41", "harvest.file_systems": "scratch home",
              "harvest.exports": "no", "events.max_kept": "37"}}]


def document(groups=GROUPS, revision=7):
    return json.dumps({"revision": revision, "groups": groups}).encode()


@pytest.mark.parametrize("node, group, interval", [
    ("oss23", "home", "23"), ("oss37", "home", "23"), ("oss41", "all", "41"),
    ("oss41.example.org", "all", "41"), ("oss4", "", None), ("mds1", "", None)])
def test_the_first_group_that_has_the_storage_server(node, group, interval):
    found = find_group(document(), node)
    assert (7, group, interval) == (found.revision, found.group,
                                    found.settings.get("harvest.interval"))


def test_their_values_are_those_of_site_cfg():
    assert {"harvest.interval": 41, "harvest.file_systems": ["scratch", "home"],
            "harvest.exports": "no", "events.max_kept": 37} == check_values(GROUPS[1]["settings"])


def test_without_a_description_there_is_nothing():
    assert NOTHING == find_group(None, "oss1")


@pytest.mark.parametrize("settings, said", [
    ({"harvest.interval": "soon"},
     "harvest.interval: expected a number from 0 to 3600, got 'soon'"),
    ({"harvest.interval": 10}, "harvest.interval: expected a number from 0 to 3600, got 10"),
    ({"harvest.exports": "sometimes"},
     "harvest.exports: expected auto, yes or no, got 'sometimes'"),
    ({"harvest.file_systems": "scratch\x1b[2J"}, "harvest.file_systems: expected names of file "
                                                 "systems, got 'scratch\\x1b[2J'"),
    ({"site.secret": "/etc/passwd"}, "site.secret: expected one of harvest.interval "),
    ({"x\x1b": "1"}, "x\\x1b: expected one of harvest.interval ")])
def test_what_is_wrong_is_named_with_what_was_expected(settings, said):
    groups = [{"name": "oss", "hosts": ["oss1"], "settings": settings}]
    with pytest.raises(WrongSettings) as caught:
        find_group(document(groups), "oss1")
    assert str(caught.value).startswith(said) and 7 == caught.value.revision
    assert "" == find_group(document(groups), "oss2").group     # it is not theirs


@pytest.mark.parametrize("data", [
    b"", b"{", b"[]", b"\xff", b'{"revision": 7}', b'{"revision": "7", "groups": []}',
    b'{"revision": true, "groups": []}', b'{"revision": 7, "groups": 23}',
    b'{"revision": 7, "groups": [{"name": "x", "settings": {}}]}',
    b'{"revision": 7, "groups": [{"name": 5, "hosts": ["oss1"], "settings": {}}]}',
    b'{"revision": 7, "groups": [{"name": "x", "hosts": ["oss1"], "settings": []}]}',
    b"[" * 100_000])
def test_what_is_no_such_document_is_one_line(data):
    with pytest.raises(WrongSettings) as caught:
        find_group(data, "oss1")
    assert "expected what `iostats ldms load` wrote, got b'" in str(caught.value)
    assert "Error" not in str(caught.value)
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                     lambda some: st.lists(some, max_size=3) | st.dictionaries(
                         st.sampled_from(["revision", "groups", "hosts", "name", "settings",
                                          *RUN_TIME_OPTIONS]) | st.text(max_size=3), some,
                         max_size=4), max_leaves=12)


@given(st.binary(max_size=60) | _JSON.map(lambda one: json.dumps(one).encode()) | st.lists(
    st.fixed_dictionaries({"name": st.text(max_size=3) | st.integers(),
                           "hosts": st.lists(st.just("oss1") | _JSON, max_size=2),
                           "settings": st.dictionaries(st.sampled_from(sorted(OPTIONS)),
                                                       st.text(max_size=3) | st.integers(),
                                                       max_size=2)}),
    max_size=3).map(document))
def test_whatever_etcd_has_is_right_or_one_line(data):
    try:
        found = find_group(data, "oss1")
    except WrongSettings as error:
        assert str(error).isprintable() and len(str(error)) < 600
    else:
        assert set(found.settings) <= set(RUN_TIME_OPTIONS)
        assert set(check_values(found.settings)) <= set(RUN_TIME_OPTIONS)


def test_what_is_kept_is_that_of_its_own_etcd(tmp_path):
    path = str(tmp_path / "settings")
    assert NOTHING == load_settings(path, "/orion/")
    kept = GroupSettings(23, "oss", {"harvest.interval": "37"})
    store_settings(path, "/orion/", kept)
    assert kept == load_settings(path, "/orion/") and NOTHING == load_settings(path, "/orion2/")


@pytest.mark.parametrize("data", [
    b"", b"{}", b'{"of": "/orion/", "revision": "x", "group": "", "settings": {}}',
    b'{"of": "/orion/", "revision": 7, "group": "", "settings": {"harvest.interval": "x"}}'])
def test_a_damaged_file_is_one_line(tmp_path, data):
    path = tmp_path / "settings"
    path.write_bytes(data)
    with pytest.raises(StateError, match="expected the settings that an agent stored"):
        load_settings(str(path), "/orion/")
