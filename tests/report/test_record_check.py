"""A value that cannot be in a record is named by its place, never in Python's words."""

import json

import page_records
import pytest

from iostats.report.json_and_csv import format_json
from iostats.report.record_check import find_wrong_type


def changed(*path, value):
    """The JSON of a record with another value at `path`; without the member where that is ..."""
    form = json.loads(format_json(page_records.small()[0]))
    place = form
    for name in path[:-1]:
        place = place[name]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return form


def test_a_record_of_this_release_has_no_wrong_type():
    for make in (page_records.small, page_records.realistic, page_records.hostile):
        assert "" == find_wrong_type(json.loads(format_json(make()[0])))


@pytest.mark.parametrize("path, value, expected", [
    (("file_systems", 0, "application", "read_bytes"), "abc",
     'file_systems[0].application.read_bytes is "abc", expected a whole number'),
    (("file_systems", 0, "application", "read_bytes"), True,
     "file_systems[0].application.read_bytes is true, expected a whole number"),
    (("file_systems", 0, "too_low"), [[23]], "file_systems[0].too_low[0] is [23], expected a text"),
    (("file_systems", 0), None, "file_systems[0] is null, expected an object"),
    (("coverage", "shared"), [37], "coverage.shared is [37], expected an object"),
    (("coverage", "complete"), 41, "coverage.complete is 41, expected true or false"),
    (("notes",), "23", 'notes is "23", expected a list'),
    (("nodes", "nid00001"), "abc", 'nodes.nid00001 is "abc", expected an object'),
    (("job", "id"), ..., "job has no id"),
    (("job", "elapsed_s"), "long", 'job.elapsed_s is "long", expected a number'),
])
def test_a_wrong_value_is_named_by_its_place(path, value, expected):
    assert expected == find_wrong_type(changed(*path, value=value))
