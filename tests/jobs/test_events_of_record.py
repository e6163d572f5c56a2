"""
A job's record on the site's server: what its nodes and the storage servers tell of the same time,
told once; what may be about others is not claimed, and nothing of others is told.
"""
from __future__ import annotations

import asyncio
import json
import zlib

import pytest
from events_messages import NOON, STATUS, event, send
from site_inside import Inside

from iostats.jobs import late_events
from iostats.store.record_store import Key

BEGAN, ENDED = NOON - 3600, NOON                # of job 4711, on nid00001 and nid00002
NAMES = "".join(f"10.9.0.{number}@o2ib nid{number:05}\n" for number in range(1, 60))


@pytest.fixture
def site(tmp_path):
    """A server that knows the names of 59 nodes, and an agent that has been heard."""
    (tmp_path / "names").write_text(NAMES)
    found = Inside(tmp_path, clients_names=tmp_path / "names")
    found.now = ENDED + 300
    send(found, status=STATUS)
    yield found
    found.store.close()


def of_node(number, at, over=None, kind="evicted", severity=2, **members):
    return {"id": f"{number:016x}", "time": BEGAN + at, "last": BEGAN + at,
            "over": None if over is None else BEGAN + over, "severity": severity, "kind": kind,
            "cause": "", "file_system": "scratch", "target": "scratch-OST0003", "clients": [],
            "count": 1, "skipped": 0, "message": "This client was evicted", **members}


def report(site, node, *events, job="4711", **members):
    wrote = [{"source": "llite", "file_system": "scratch", "values": {
        "read_calls": 23, "read_bytes": 41_003, "write_calls": 5, "write_bytes": 37}}]
    site.send(job, node, ended=ENDED, elapsed_s=3600.0,
              **{"events": list(events), "deltas": wrote, "other_jobs": 0,
                 "about": {"nodes": "nid[00001-00002]"}, **members})


def by_server(origin, at, clients, **members):
    return event(origin, at=BEGAN + at, **{
        "cause": "silent", "clients": [f"10.9.0.{number}@o2ib" for number in clients],
        "count": len(clients) or 1, "message": "haven't heard from client SECRET", **members})


def record_of(site, job="4711"):
    site.now += 3
    site.make_records()
    [record] = site.records(job)
    return record


def few(record, *names):
    return [tuple(one[name] for name in names) for one in record["events"]]


def test_what_node_and_target_tell_of_one_eviction_is_one_line(site):
    """
    The target evicted three clients 371 s after the job's start, one of them the job's nid00002,
    which heard of it 30 s later and was connected again at 414 s.
    """
    send(site, [by_server("one", 371, [2, 41, 47])])
    report(site, "nid00001")
    report(site, "nid00002", of_node(1, 401, over=414))
    record = record_of(site)
    assert [("nid00002", "both", BEGAN + 371, 43.0, "silent", 3, 1, "may be lost", True)] == few(
        record, "nodes", "told_by", "time", "longest_s", "cause", "clients", "count", "data",
        "is_certain")
    assert 0 == record["events_more"]
    text = json.dumps(record)
    assert "SECRET" not in text and "nid00041" not in text and "10.9.0." not in text


def marks(record):
    [fs] = record["file_systems"]
    return fs["too_high"]


def test_an_eviction_that_the_node_had_not_noticed_marks_what_it_wrote(site):
    """nid00002 wrote 37 bytes, and its report was sent before it heard of its eviction."""
    send(site, [by_server("one", 371, [2])])
    report(site, "nid00001")
    report(site, "nid00002")
    assert ["write_bytes"] == marks(record_of(site))


def test_who_wrote_nothing_lost_nothing(site):
    send(site, [by_server("one", 371, [2])])
    read = [{"source": "llite", "file_system": "scratch",
             "values": {"read_calls": 23, "read_bytes": 41_003}}]
    report(site, "nid00001", deltas=read)
    report(site, "nid00002", deltas=read)
    assert [] == marks(record_of(site))


@pytest.mark.parametrize("clients, nodes, high", [
    ([2], ["nid00002", "nid00002"], ["write_bytes"]),       # the log left one of two lines out
    ([41], [""], []),                                       # another job's node
    ([2, 41], ["nid00002", ""], ["write_bytes"]),           # by its target: any of the two
    ([], [""], []),
], ids=["the job's node", "another node", "two were cut off", "none is named"])
def test_an_eviction_without_a_name_is_about_the_only_client_that_was_cut_off(site, clients, nodes,
                                                                              high):
    found = [event("unnamed", at=BEGAN + 401, cause="unknown", clients=[], count=1,
                   target="scratch-OST0007", message="scratch-OST0007: eviction_count has risen")]
    if clients:
        found.append(by_server("one", 371, clients))
    send(site, found)
    report(site, "nid00001")
    report(site, "nid00002")
    record = record_of(site)
    assert nodes == [one["nodes"] for one in record["events"]]
    assert high == marks(record)


def test_events_of_other_nodes_other_file_systems_and_other_times_are_not_the_jobs(site):
    send(site, [
        by_server("other nodes", 371, [41, 47]),
        by_server("before", -100, [1]), by_server("long after", 3700, [1]),
        event("home", "target_down", BEGAN + 23, fs="home", target="home-OST0001"),
        event("later", "target_down", ENDED + 23),
        event("of a connection", "other", BEGAN + 23, message="LustreError: SECRET")])
    report(site, "nid00001")
    report(site, "nid00002")
    assert [] == record_of(site)["events"]


def test_a_target_that_was_down_hits_all_who_used_its_file_system(site):
    """Also where it went down before the job's start, and was over after that."""
    send(site, [event("down", "target_down", BEGAN - 37, over=BEGAN + 194, message="SECRET"),
                event("over before", "target_down", BEGAN - 3700, over=BEGAN - 3600),
                event("lbug", "lbug", BEGAN + 500, fs="", target="", message="SECRET"),
                event("net", "lnet_resends", BEGAN + 600, fs="", target="",
                      message="LNet sent 2,300 messages, and resent 92 (4.0 %)")])
    report(site, "nid00001")
    report(site, "nid00002")
    record = record_of(site)
    assert [("target_down", "scratch-OST0003", "", 231.0, True, ""),
            ("lbug", "", "", None, True, ""),
            ("lnet_resends", "", "", None, True,
             "oss1: LNet sent 2,300 messages, and resent 92 (4.0 %)")] == few(
        record, "kind", "target", "nodes", "longest_s", "is_certain", "message")


def test_a_target_that_became_read_only_hits_all_who_used_its_file_system(site):
    """A disk that is no target's may be the storage server's own."""
    send(site, [event("ro", "read_only", BEGAN + 500, message="LDISKFS-fs (dm-3): SECRET"),
                event("disk", "disk_error", BEGAN + 499, message="dev sdb SECRET"),
                event("own", "disk_error", BEGAN + 600, fs="", target="", message="dev sda"),
                event("hung", "hung_task", BEGAN + 700, fs="", target="", message="SECRET")])
    report(site, "nid00001")
    report(site, "nid00002")
    record = record_of(site)
    assert [("disk_error", "scratch-OST0003", ""), ("read_only", "scratch-OST0003", ""),
            ("hung_task", "", "")] == few(record, "kind", "target", "message")


def test_who_did_nothing_on_a_file_system_was_not_hit(site):
    send(site, [event("down", "target_down", BEGAN + 37)])
    nothing = [{"source": "llite", "file_system": "scratch", "values": {}},
               {"source": "osc", "file_system": "scratch", "target": "OST0003", "values": {}}]
    report(site, "nid00001", deltas=nothing)
    report(site, "nid00002", deltas=nothing)
    assert [] == record_of(site)["events"]


def test_a_flood_of_which_few_are_named_may_be_the_jobs(site):
    """Ten thousand clients, eight named, none the job's: it is said that it is not known."""
    send(site, [by_server("flood", 371, range(40, 48), count=10_000)])
    report(site, "nid00001")
    report(site, "nid00002")
    assert [("", False, 10_000, "", "")] == few(
        record_of(site), "nodes", "is_certain", "clients", "data", "message")


def test_in_a_flood_its_node_says_that_it_was_evicted(site):
    send(site, [by_server("flood", 371, range(40, 48), count=10_000)])
    report(site, "nid00001")
    report(site, "nid00002", of_node(1, 380))
    assert [("nid00002", True, "both", 10_000)] == few(
        record_of(site), "nodes", "is_certain", "told_by", "clients")


def test_a_client_without_a_name_may_be_a_node_whose_nid_is_not_known(site):
    """nid00099 is not in the list of names, nor is the client that was evicted."""
    send(site, [event("one", at=BEGAN + 371, cause="lock", clients=["10.8.8.8@tcp"]),
                by_server("seen before", -100, [1])])
    for job, node, found in (("4711", "nid00001", []), ("4712", "nid00099", [("", False)])):
        report(site, node, job=job, about={"nodes": node})
        assert found == few(record_of(site, job), "nodes", "is_certain")


def test_of_a_large_job_all_nodes_are_in_one_line_and_none_is_only_counted(site):
    """530 nodes lost one target and had it again; the site's store has their events, too."""
    nodes = "n[0001-0530]"
    for number in range(1, 531):
        report(site, f"n{number:04}", of_node(number, 371, 394, "connection_lost", 1, message=""),
               of_node(5000 + number, 394, None, "connection_restored", 0, message=""),
               about={"nodes": nodes})
    record = record_of(site)
    assert [("connection_lost", nodes, 530, 23.0), ("connection_restored", nodes, 530, None)] == (
        few(record, "kind", "nodes", "node_count", "longest_s"))
    assert 0 == record["events_more"]


def test_on_a_shared_node_the_data_may_be_anothers(site):
    lost = of_node(1, 371, kind="data_lost", severity=3, target="", message="/scratch/bob/secret")
    report(site, "nid00001", lost, other_jobs=2)
    report(site, "nid00002")
    assert [("may be lost", "", "nid00001")] == few(record_of(site), "data", "message", "nodes")


def test_without_anyone_who_looks_nothing_is_known(inside):
    inside.send("4711", "nid00001", about={"nodes": "nid00001"})
    inside.now += 2
    inside.make_records()
    assert (None, 0) == tuple(inside.records("4711")[0][name] for name in ("events",
                                                                           "events_more"))


def test_an_event_that_comes_after_the_record_gets_into_it(site, monkeypatch):
    """
    The agent tells of it half a minute after the record was made; what the batch system had said
    stays, and a record that has it is left alone.
    """
    monkeypatch.setattr(late_events, "CHECK_EVERY_S", 0.01)
    report(site, "nid00001")
    report(site, "nid00002")
    assert [] == record_of(site)["events"]
    site.now += 30
    late = [by_server("late", 3590, [1]), by_server("after its end", 3630, [2]),
            by_server("not its", 3590, [41])]

    async def told():
        working = asyncio.ensure_future(site.server.work())
        await asyncio.sleep(0.05)
        send(site, late)
        for _ in range(15_000):
            await asyncio.sleep(0.01)
            if len(site.records("4711")[0]["events"]) == 2:
                break
        made = site.store.rows("SELECT made FROM jobs")
        site.now += 1
        await asyncio.sleep(0.2)
        assert made == site.store.rows("SELECT made FROM jobs")
        working.cancel()
    asyncio.run(told())
    [record] = site.records("4711")
    assert [("nid00001", BEGAN + 3590), ("nid00002", BEGAN + 3630)] == few(record, "nodes", "time")
    assert (2, "alice") == (record["coverage"]["reported"], record["job"]["user"])


def test_after_a_kill_late_events_are_looked_at_again(site, monkeypatch):
    """The server was killed when it had taken the event, and before it looked whose it is."""
    monkeypatch.setattr(late_events, "CHECK_EVERY_S", 0.01)
    report(site, "nid00001")
    report(site, "nid00002")
    assert [] == record_of(site)["events"]
    send(site, [by_server("late", 3590, [1])])
    site.store.close()
    site.begin()
    site.make_records(lambda: site.records("4711")[0]["events"] != [])
    assert [("nid00001",)] == few(site.records("4711")[0], "nodes")


@pytest.mark.parametrize("why, times", [("", [BEGAN, ENDED, 3600]),
                                        ("the epilog was ended", [BEGAN + 23, ENDED, 3577])])
def test_what_the_batch_system_had_said_stays_where_it_has_forgotten_the_job(site, why, times):
    """
    A late report, or a restart before the record has the event: no one asks in vain.  The times
    are the nodes', if one of them has reported numbers.
    """
    for node in ("nid00001", "nid00002"):
        report(site, node, **({"reason": why} if why else {}))
    record_of(site)
    [(key, body)] = [(row[:3], row[3]) for row in site.store.rows(
        "SELECT cluster, job, attempt, record FROM jobs")]
    record = json.loads(zlib.decompress(body))
    record["batch"]["outcome"], record["job"]["user"] = "TIMEOUT", "carol"
    record["job"].update(started=BEGAN + 23, ended=ENDED, elapsed_s=3577)
    site.store.change(("UPDATE jobs SET record = ?", (zlib.compress(
        json.dumps(record).encode()),)))
    site.server.open_jobs.expect_events([Key(*key)])
    site.store.close()
    site.begin()                                # it is due, and why is not known any more
    site.now += 60
    after = record_of(site)
    assert ("TIMEOUT", "carol", 0 if why else 2) == (
        after["batch"]["outcome"], after["job"]["user"], after["coverage"]["reported"])
    assert times == [after["job"][name] for name in ("started", "ended", "elapsed_s")]
