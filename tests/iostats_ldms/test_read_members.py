"""
Maestro's etcd.yaml: all members count, however often the key is written.
"""

import pytest

from iostats_ldms.description.problems import DescriptionError
from iostats_ldms.description.read import read_etcd_members

ONE_EACH = """\
cluster: voltrino
members:
  - host: 10.128.0.7
    port: 2379
members:
  - host: 10.128.0.8
    port: 2379
members:
  - host: 10.128.0.9
    port: 2379
"""


@pytest.mark.parametrize("text, expected", [
    ("members: [{host: orion-01, port: 2381}, {host: orion-02}]",
     ["http://orion-01:2381", "http://orion-02:2379"]),
    (ONE_EACH, ["http://10.128.0.7:2379", "http://10.128.0.8:2379", "http://10.128.0.9:2379"]),
    (ONE_EACH + ONE_EACH + "maestro_members: [{host: 10.128.0.7, port: 4411}]\n",
     ["http://10.128.0.7:2379", "http://10.128.0.8:2379", "http://10.128.0.9:2379"]),
    ("members: [{host: 'fd00::23'}]", ["http://[fd00::23]:2379"]),
], ids=["a list", "the README's, a key for each", "the README's, twice", "IPv6"])
def test_members(text, expected):
    assert expected == read_etcd_members(text)


@pytest.mark.parametrize("text, expected", [
    ("", "FILE:1:1: expected a mapping with members, got nothing"),
    ("cluster: orion\n", "FILE:1:1: expected members, a list of {host, port}"),
    ("members:\n  - port: 2379\n", "FILE:2:5: members[0]: host is missing"),
    ("members: [{host: o1, port: 70000}]\n",
     "FILE:1:28: members[0].port: expected a number from 1 to 65535, got '70000'"),
    ("members: [{host: http://o1}]\n",
     "FILE:1:18: members[0].host: expected a host name or an address, got"),
    ("members: o1\n",
     "FILE:1:10: members: expected a list of members (each begins with -), got 'o1'"),
])
def test_a_file_that_is_wrong(text, expected):
    with pytest.raises(DescriptionError) as refused:
        read_etcd_members(text)
    assert refused.value.format_lines()[0].startswith(expected), refused.value.format_lines()
