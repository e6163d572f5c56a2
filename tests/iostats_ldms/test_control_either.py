"""
The control connection to ldmsds, simulated and real: what they have, what they refuse, a restart, a
kill and a hang, and each authentication.
"""
from __future__ import annotations

import asyncio
import contextlib

import pytest
from ldms_desk import EITHER, PATIENT, REAL, producer_line, run, sampler_lines
from processes import free_port
from test_munge import munged  # noqa: F401

from iostats_ldms.control import queries
from iostats_ldms.control.authentication import load_authentication
from iostats_ldms.control.connection import Connection
from iostats_ldms.control.errors import AuthenticationFailed, ControlError, NoAnswer, NotConnected
from iostats_ldms.statements.dialect import Statement

PROCESS = ["process 4.5.3", REAL]                # of which one can be stopped, and killed


def opened(desk, name, **times):
    return Connection.open("127.0.0.1", desk.ports[name],
                           **{"connect_within_s": 30.0, "answer_within_s": 30.0, **times})


def said(verb, **attributes):
    return Statement(verb, tuple(attributes.items()))


@pytest.mark.parametrize("kind", EITHER)
def test_what_a_sampler_and_its_aggregator_have(kind, tmp_path):
    """Set, hint, producers in three states, an updater with its rule, and a sampler's plugin."""
    async def story(desk):
        await desk.start("node-23", *sampler_lines("node-23", interval="500000"))
        await desk.start(
            "agg-1", producer_line("node-23", desk.ports["node-23"]),
            producer_line("node-37", free_port()), producer_line("node-41", 411, reconnect="41s"),
            "prdcr_start name=node-23", "prdcr_start name=node-37",
            "updtr_add name=updtr_0 interval=500000 offset=100000",
            "updtr_prdcr_add name=updtr_0 regex=node-23",
            r"updtr_match_add name=updtr_0 regex=^node\S23/mem match=inst",
            "updtr_start name=updtr_0")
        sampler = await desk.until("node-23", lambda seen: seen.sets and seen.sets[0].sampled_s)
        [one] = sampler.sets
        assert (one.instance, one.schema, one.update_hint_us, one.offset_us) == (
            "node-23/meminfo", "meminfo", 500000, 0)
        assert one.data_size_bytes > 0 < one.meta_size_bytes
        plugin = sampler.plugins["meminfo"]
        assert (plugin.plugin, plugin.kind, plugin.sets) == (
            "meminfo", "sampler", ("node-23/meminfo",))
        assert plugin.interval_us == {"4.4": 500000, "4.5": None}[desk.release]

        seen = await desk.until("agg-1", lambda seen: seen.sets)
        assert [one.instance for one in seen.sets] == ["node-23/meminfo"]
        assert {name: (one.is_started, one.reconnect_us) for name, one in seen.producers.items()} \
            == {"node-23": (True, 1000000), "node-37": (True, 1000000),
                "node-41": (False, 41000000)}
        assert [one.instance for one in seen.producers["node-23"].sets] == ["node-23/meminfo"]
        updater = seen.updaters["updtr_0"]
        assert (updater.interval_us, updater.offset_us, updater.mode, updater.auto_interval,
                updater.is_started, updater.producers, updater.matches) == (
            500000, 100000, "pull", False, True, ("node-23",), ((r"^node\S23/mem", "inst"),))
        assert seen.release[:3] == desk.release
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_what_a_daemon_refuses(kind, tmp_path):
    """The errnos that a controller meets, and that the counter rises by what was carried out."""
    async def story(desk):
        await desk.start("agg-1")
        connection = await opened(desk, "agg-1")
        before = await queries.read_config_counter(connection)
        add = said("prdcr_add", name="node-23", host="127.0.0.1", port="1", xprt="sock",
                   type="active", reconnect="1000000")
        replies = await asyncio.gather(*map(connection.command, (
            add, add, said("prdcr_start", name="node-23"), said("prdcr_start", name="node-23"),
            said("prdcr_start", name="node-37"), said("prdcr_start"),
            said("updtr_add", name="u", interval="1000000"), said("updtr_start", name="u"),
            said("updtr_prdcr_add", name="u", regex=".*"), said("no_such_verb"))))
        assert [reply.errno for reply in replies] == [0, 17, 0, 16, 2, 22, 0, 0, 16, 38]
        assert await queries.read_config_counter(connection) == before + 4
        connection.close()
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", PROCESS)
def test_a_daemon_that_was_killed_is_noticed_at_once_and_its_restart_by_its_counter(kind, tmp_path):
    """A fresh one has carried out less."""
    async def story(desk):
        await desk.start("agg-1", "updtr_add name=u interval=1000000")
        connection = await opened(desk, "agg-1")
        for name in ("v", "w"):
            await connection.command(said("updtr_add", name=name, interval="1000000"))
        before = await queries.read_config_counter(connection)
        desk.kill("agg-1")
        assert isinstance(await asyncio.wait_for(connection.lost, 30), NotConnected)
        with pytest.raises(NotConnected):
            await opened(desk, "agg-1")
        await desk.start("agg-1")
        connection = await opened(desk, "agg-1")
        assert await queries.read_config_counter(connection) < before
        connection.close()
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", PROCESS)
def test_a_hung_daemon_is_left_in_time_and_may_carry_out_later_what_it_was_told(kind, tmp_path):
    """What was received before it hung is in its socket, whatever we do with ours."""
    async def story(desk):
        await desk.start("agg-1")
        connection = await opened(desk, "agg-1", answer_within_s=0.5)
        desk.hang("agg-1")
        with pytest.raises(NoAnswer, match="it is unknown whether it was executed"):
            await connection.command(said("updtr_add", name="late", interval="1000000"))
        with pytest.raises(NoAnswer, match="it hangs or is not ldmsd"):
            await opened(desk, "agg-1", answer_within_s=0.5)
        desk.go_on("agg-1")
        await desk.until("agg-1", lambda seen: "late" in seen.updaters)
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_a_thousand_producers(kind, tmp_path):
    """Told without waiting for one another, and shown in one answer."""
    async def story(desk):
        await desk.start("agg-1")
        connection = await opened(desk, "agg-1")
        replies = await asyncio.gather(*(connection.command(said(
            "prdcr_add", name=f"node-{n}", host="127.0.0.1", port="1", xprt="sock", type="active",
            reconnect="1000000")) for n in range(1000)))
        assert {reply.errno for reply in replies} == {0}
        assert len(await queries.read_producers(connection)) == 1000
        connection.close()
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", [REAL])
def test_ovis(kind, tmp_path):
    """The secret word, another one, and none."""
    for name, word in (("ours", "correct-horse-23"), ("theirs", "wrong-horse-37")):
        (tmp_path / name).write_text(f"secretword={word}\n")
        (tmp_path / name).chmod(0o600)
    port = free_port()

    async def story(desk):
        await desk.start("agg-1", f"auth_add name=o plugin=ovis conf={tmp_path}/ours",
                         f"listen xprt=sock port={port} host=127.0.0.1 auth=o")
        connection = await Connection.open("127.0.0.1", port,
                                           load_authentication("ovis", f"{tmp_path}/ours"),
                                           **PATIENT)
        assert await queries.read_daemon_state(connection) == "ready"
        connection.close()
        for other, words in ((load_authentication("ovis", f"{tmp_path}/theirs"), "secret word"),
                             (load_authentication("none"), "Auth mismatch")):
            with pytest.raises(AuthenticationFailed, match=words):
                await Connection.open("127.0.0.1", port, other, **PATIENT)
    run(kind, tmp_path, story)


@pytest.mark.munge
@pytest.mark.parametrize("kind", [REAL])
def test_munge_with_a_real_daemon(kind, munged, tmp_path):  # noqa: F811
    """Where this ldmsd was built with munge."""
    port = free_port()

    async def story(desk):
        await desk.start("agg-1")
        found = await desk.errnos("agg-1",
                                  f"auth_add name=m plugin=munge socket={munged.socket}",
                                  f"listen xprt=sock port={port} host=127.0.0.1 auth=m")
        if 2 in found:                      # 4.4 looks for the plugin's library when it listens
            pytest.skip("this ldmsd has no munge")
        assert found == [0, 0]
        connection = await Connection.open("127.0.0.1", port,
                                           load_authentication("munge", munged.socket))
        assert await queries.read_daemon_state(connection) == "ready"
        connection.close()
        # Which of the two comes first depends on when the daemon's own arrives.
        why = r"munge (makes no credential for it|does not accept its credential): Failed to access"
        with pytest.raises(AuthenticationFailed, match=why):
            await Connection.open("127.0.0.1", port,
                                  load_authentication("munge", f"{tmp_path}/none"))
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", [REAL])
def test_what_is_no_daemon_of_ldms_leaves_a_daemon_as_it_was(kind, tmp_path):
    """Bytes of another protocol, and a connection that is closed in the middle."""
    async def story(desk):
        await desk.start("agg-1")
        for sent in (b"", b"GET / HTTP/1.0\r\n\r\n", bytes(100)):
            _reader, writer = await asyncio.open_connection("127.0.0.1", desk.ports["agg-1"])
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            writer.close()
        with contextlib.suppress(ControlError):
            (await opened(desk, "agg-1")).close()
        assert (await desk.observed("agg-1")).state == "ready"
    run(kind, tmp_path, story)
