"""
What clients did between two saved dumps, and between two looks, against the kernel's model: no
number is more than what was done, and one that is less is marked; nothing raises.
"""
from __future__ import annotations

import pytest
from exports_kernel import NS, RELEASES, ExportsKernel
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import IostatsError
from iostats.lustre import exports
from iostats.storage import local_clients
from iostats.storage.local_clients import LocalClients
from iostats.storage.targets import find_local_targets

BEGAN = 1_795_225_320 * NS
NIDS = ("10.77.0.11@tcp", "10.0.0.7@o2ib3", "fd00:172:16:11::5@tcp", "0@lo")
_OPERATIONS = st.lists(st.tuples(
    st.sampled_from(("read", "write", "open", "clear", "clear one", "unmount", "mount")),
    st.sampled_from(NIDS), st.integers(1, 37)), max_size=12)


def done(kernel, operations, now):
    """Let this happen to a target, a second each; when it is over."""
    for what, nid, times in operations:
        now += NS
        if what == "mount":
            kernel.mount(now, nid, nid)
        elif what == "unmount":
            kernel.unmount(nid)
        elif what == "clear":
            kernel.clear(now)
        elif what == "clear one" and nid in kernel.nids:
            kernel.clear_one(now, nid)
        elif nid in kernel.mounts and what == "open":
            kernel.request(now, nid, "open", times)
        elif nid in kernel.mounts and what in ("read", "write"):
            getattr(kernel, what)(now, nid, 4096, times)
    return now


def started(release):
    kernel = ExportsKernel(release, "MDT", BEGAN)
    for nid in NIDS[:2]:
        kernel.mount(BEGAN, nid, nid)
    return kernel


def as_metrics(truth):
    """(written, read, requests, metadata) of the five numbers of an MDT."""
    read, written, reads, writes, operations = truth
    return [written, read, reads + writes + operations, operations]


def shows_all(kernel, operations, had):
    """
    A client that is new, and whose file alone is cleared, shows nothing of what was before; nor
    does a clear of all of them where there was no file before (`had`: the NIDs of those).
    """
    unseen = ("clear one",) if had else ("clear one", "clear")
    return kernel.has_start and not any(what in unseen for what, *_ in operations)


def is_right(load, before, after, has_start):
    """
    Nothing is too much, and what is too little is marked; without start_time a file that began
    again and has overtaken its old numbers shows nothing.
    """
    rows = dict(zip(load.nids, zip(load.amounts, load.is_low)))
    for nid, truth in after.items():
        gained = [b - a for a, b in zip(as_metrics(before.get(nid, [0] * 5)), as_metrics(truth))]
        found, is_low = rows.get(nid, ([0] * 4, False))
        assert all(a <= b for a, b in zip(found, gained)), (nid, found, gained)
        assert not has_start or found == gained or is_low or load.missing, (nid, found, gained)


@pytest.mark.parametrize("release", RELEASES)
@given(first=_OPERATIONS, second=_OPERATIONS)
def test_two_dumps_of_random_histories(release, first, second):
    kernel = started(release)

    def dump(now):
        found = {nid: exports.parse_client_file(kernel.text(now, nid)) for nid in kernel.nids}
        return local_clients.DumpedClients({("scratch", "MDT0000"): found}, now)
    now = done(kernel, first, BEGAN) + NS
    before, old, had = dict(kernel.truth), dump(now), list(kernel.nids)
    before = {nid: list(numbers) for nid, numbers in before.items()}
    now = done(kernel, second, now) + NS
    load = local_clients.compare_dumps(old, dump(now), None)["scratch"]
    is_right(load, before, kernel.truth, shows_all(kernel, second, had))


@given(first=_OPERATIONS, second=_OPERATIONS, third=_OPERATIONS, release=st.sampled_from(RELEASES))
def test_looks_at_random_histories(tmp_path_factory, release, first, second, third):
    """Three looks; the first one counts nothing.  Rates times the time between are gains."""
    root, kernel = tmp_path_factory.mktemp("oss"), started(release)
    at = [BEGAN]
    clients = LocalClients(lambda: at[0] / NS, lambda: at[0])
    looked, before, had = BEGAN, {}, []
    for number, operations in enumerate((first, second, third)):
        at[0] = done(kernel, operations, at[0]) + NS
        kernel.save(at[0], root)
        load = clients.scan(find_local_targets(str(root)))["scratch"]
        if number == 0:
            assert [] == load.nids and {"MDT0000": "read for the first time"} == load.missing
        else:
            span_s = (at[0] - looked) / NS
            is_right(load._replace(amounts=[[round(amount * span_s) for amount in row]
                                            for row in load.amounts]), before, kernel.truth,
                     shows_all(kernel, operations, had))
        looked, before = at[0], {nid: list(numbers) for nid, numbers in kernel.truth.items()}
        had = list(kernel.nids)


@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([
    b"obdfilter.scratch-OST0000.exports.10.0.0.1@tcp.stats=", b"snapshot_time 7.5 secs.nsecs",
    b"read_bytes 23 samples [bytes] 2 9 94", b"mdt.my-fs-MDT0000.exports.0@lo.stats=",
    b"open 37 samples [usecs] 1 2 3 4", b"obdfilter.x.exports.stats=1", b"# rc 0", b"a=b"])),
    max_size=12))
def test_any_file_is_read_or_refused_in_one_line(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("dump") / "dump"
    path.write_bytes(b"\n".join(lines))
    try:
        dump = local_clients.read_dump(str(path))
    except IostatsError as error:
        assert "\n" not in str(error)
        return
    for load in local_clients.compare_dumps(None, dump, None).values():
        assert all(amount >= 0 for row in load.amounts for amount in row)
    for load in local_clients.compare_dumps(dump, dump, 20.0).values():
        assert not any(amount for row in load.amounts for amount in row)
