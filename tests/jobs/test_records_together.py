"""
Many records that are due at once share commits, and one that fails does not affect the others.
"""
from __future__ import annotations

import asyncio

import pytest
from site_desk import a_report
from site_inside import answer_to

from iostats.answers import site_server as receive
from iostats.base import config as site_config
from iostats.base.errors import StateError
from iostats.jobs import records
from iostats.server.rpc_server import Caller
from iostats.store.clock import Clocks
from iostats.store.record_store import Store

NOW = 1_795_225_100.0
JOBS = [str(4711 + number) for number in range(23)]


@pytest.fixture
def store(tmp_path):
    one = Store(str(tmp_path / "site.sqlite"), Clocks(lambda: NOW, lambda: 4711.0, lambda: "23"))
    yield one
    one.close()


@pytest.fixture
def server(store, monkeypatch):
    """A SiteServer that has a report of each job, all records due; no clock is waited for."""
    monkeypatch.setattr(records, "TOGETHER_WITHIN_S", 1000.0)
    config = site_config.load("/dev/null", environ={})
    for name, value in (("batch.system", "none"), ("site.show", "")):
        config.set_value(name, value, "test")
    one = receive.SiteServer(store, [], config, lambda: NOW)
    for job in JOBS:
        report(one, job)
    store.commit()
    return one


def report(server, job, node="nid00001", read_bytes=41_003):
    assert {"counted": True, "why": ""} == answer_to(
        server, Caller(node, None), "report",
        **a_report(job, node, seq=f"{job} {node}", read_bytes=read_bytes))["result"]


def make_records(server):
    asyncio.run(server.records.make(list(server.open_jobs.jobs)))


def read_bytes(server):
    """{job: bytes read} of the records that are kept."""
    found = answer_to(server, Caller("nid00001", None), "latest", count=100)["result"]
    return {record["job"]["id"]: record["file_systems"][0]["application"]["read_bytes"]
            for record in found}


def test_records_that_are_due_together_share_commits(store, server, monkeypatch):
    keep, together = store.store_records, []
    monkeypatch.setattr(store, "store_records",
                        lambda records: (together.append(len(records)), keep(records)))
    make_records(server)
    assert [20, 3] == together
    assert dict.fromkeys(JOBS, 41_003) == read_bytes(server)
    assert {} == server.open_jobs.jobs


def test_a_record_that_cannot_be_stored_does_not_affect_others(store, server, monkeypatch, caplog):
    keep = store.store_records

    def refuses_one(records):
        if any(record[0].job == "4713" for record in records):
            raise OverflowError("such a thing")
        keep(records)
    monkeypatch.setattr(store, "store_records", refuses_one)
    make_records(server)
    assert {job: 41_003 for job in JOBS if job != "4713"} == read_bytes(server)
    assert ["4713"] == [key.job for key in server.open_jobs.jobs]
    assert "no record of job 4713" in caplog.text


def test_a_report_between_making_and_storing_is_in_the_next_record(server, monkeypatch):
    make = server.records.make_record

    async def a_report_comes(key, job, *known):
        made = await make(key, job, *known)
        if key.job == "4711" and job.reports == 1:
            report(server, "4711", "nid00002", read_bytes=53_007)
        return made
    monkeypatch.setattr(server.records, "make_record", a_report_comes)
    make_records(server)
    assert "4711" not in read_bytes(server)
    make_records(server)
    assert 41_003 + 53_007 == read_bytes(server)["4711"]
    assert 23 == len(read_bytes(server))


def test_a_disk_that_is_full_makes_all_of_them_due_later(store, server, monkeypatch):
    def full(records):
        raise StateError("no space left")
    with monkeypatch.context() as during:
        during.setattr(store, "store_records", full)
        make_records(server)
    assert {} == read_bytes(server)
    assert {NOW + 60} == {job.due for job in server.open_jobs.jobs.values()}
    make_records(server)
    assert 23 == len(read_bytes(server))
