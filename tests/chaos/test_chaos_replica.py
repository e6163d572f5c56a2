"""
PostgreSQL itself fails over, to a replica that lacks the last transactions.
"""
from __future__ import annotations

import contextlib
import time

import pytest
from campaign import WHOLE
from events_messages import event, ids, params
from postgresql import Cluster
from processes import until
from storage import StorageServer, moved
from test_take_over import JOBS, NODES, TwoServers

from iostats.wire import client, protocol

pytestmark = pytest.mark.postgresql


def replicate(primary, replica):
    """Wait until the replica has all that the primary has committed."""
    import psycopg
    with psycopg.connect(primary.url("postgres")) as connection:
        [(position,)] = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
    with psycopg.connect(replica.url("postgres"), autocommit=True) as connection:
        until(lambda: connection.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (
            position,)).fetchall() == [(True,)], what="the replica")


def report_events(desk, *events):
    """Send them as the agent of a storage server does."""
    for message in params(events, made_at=time.time()):
        assert client.call("127.0.0.1", desk.port, protocol.SITE, desk.signs(), "oss1",
                           "packed_events", message)["taken"]


if WHOLE:                                   # a minute on a busy machine
    def test_a_promoted_replica_without_the_last_transactions_has_exact_or_marked_totals(tmp_path):
        """
        Asynchronous replication, and a URL with both hosts: what was acknowledged and not
        replicated is lost, and the record names its nodes; storage servers send a full sweep.
        Who follows the events has seen what was lost, and gets what is new.
        """
        with Cluster() as primary, contextlib.ExitStack() as stack:
            url = primary.database()
            replica = stack.enter_context(Cluster(primary=primary))
            desk = stack.enter_context(TwoServers(
                tmp_path, f"{url},{replica.top}&target_session_attrs=read-write"))
            desk.configure(site_deadline=0)
            server = desk.site()
            oss = StorageServer(desk, "oss1")
            oss.show("OST0000", {"4799": moved(1009)})
            agent = oss.agent(patient=True)
            desk.until_written(0, "4799")
            whole, in_part, lost = JOBS[:3]
            for node in NODES:
                desk.deliver(whole, node)
            desk.deliver(in_part, NODES[0])
            report_events(desk, event(23))
            replicate(primary, replica)
            replica.stop()                              # it is cut off
            report_events(desk, *map(event, range(100, 137)))
            followed = desk.asked("events")
            assert 38 == len(followed["events"])
            for job, node in ((in_part, NODES[1]), *((lost, node) for node in NODES)):
                desk.deliver(job, node)
            oss.show("OST0000", {"4799": moved(23 * 1009)})
            desk.until_read(23 * 1009)
            primary.stop()
            assert 1 == server.wait().status
            replica.start()
            replica.promote()
            desk.site()
            report_events(desk, event(41))
            follows = desk.asked("events", after=followed["next"])
            assert [event(41).id] == ids(follows) and follows["places"] == followed["places"]
            assert [event(23).id, event(41).id] == ids(desk.asked("events"))
            desk.deliver(in_part, NODES[2])
            desk.until_read(23 * 1009)
            oss.show("OST0000", {"4799": moved(37 * 1009)})
            desk.until_read(37 * 1009)
            agent.terminate()
            agent.communicate(timeout=100)
            assert (3 * 23, [], False) == desk.coverage(whole, 3)
            assert (2 * 23, ["nid00002"], True) == desk.coverage(in_part, 2)
            assert [] == desk.records(lost)
