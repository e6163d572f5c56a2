"""
The service over sockets: simulated daemons of both releases, and real ones.

Whether a set is collected once is asked of the aggregators, by other connections than the
service's.
"""

import asyncio
import contextlib
import socket
import time
from dataclasses import replace

import pytest
from fleet_desk import advertised, described
from ldms_desk import EITHER, run

from iostats_ldms.control.connection import Connection
from iostats_ldms.control.errors import NotConnected, Unreachable
from iostats_ldms.control.observed import ObservedState
from iostats_ldms.description.model import Auth, Plugin, StoragePolicy
from iostats_ldms.service import reports
from iostats_ldms.service.service import Service, Settings

NAMES = ("node-1", "node-2", "node-3", "node-4", "agg-1", "agg-2", "top-1")
QUICK = Settings(poll_s=0.3, connect_within_s=3.0, answer_within_s=3.0)
WITHIN_S = 150.0


@contextlib.asynccontextmanager
async def cared_for(desk, names=NAMES, **service_options):
    """Bare daemons, and a service; its happenings are in `service.heard_of`."""
    await asyncio.gather(*(desk.start(name) for name in names))
    happenings = []
    service = Service(on_event=happenings.append, settings=QUICK, **service_options)
    service.heard_of = happenings
    stop = asyncio.Event()
    running = asyncio.ensure_future(service.run(stop))
    try:
        yield service
    finally:
        stop.set()
        await running


def of(desk, **options):
    return described(**{"samplers": 4, "aggregators": 2, "tops": 1, "ports": desk.ports,
                        "updater_us": 500_000, **options})


async def until(true, what):
    ends = asyncio.get_running_loop().time() + WITHIN_S
    while not await true():
        assert asyncio.get_running_loop().time() < ends, what()
        await asyncio.sleep(0.1)


async def collected(desk, names):
    """{set: the aggregators of `names` that have it}, as they say now."""
    found = {}
    for name in names:
        for one in (await desk.observed(name, with_sets=True)).sets:
            found.setdefault(one.instance, []).append(name)
    return found


async def once(desk, service, aggregators, sets=("node-1/meminfo", "node-2/meminfo",
                                                  "node-3/meminfo", "node-4/meminfo")):
    """Until each set is at exactly one of the aggregators, advances at the top, and all is told."""
    began = time.time()

    async def is_so():
        first = await collected(desk, aggregators)
        top = {one.instance for one in (await desk.observed("top-1", with_sets=True)).sets
               if one.sampled_s > began}
        return {*first} == top == {*sets} and all(len(by) == 1 for by in first.values()) \
            and {*aggregators} == {name for by in first.values() for name in by} \
            and all(state.as_described for state in service.make_status().daemons
                    if state.state == "up")
    await until(is_so, lambda: (service.make_status(), service.heard_of))


def kinds(service):
    return [one.kind for one in service.heard_of]


@pytest.mark.parametrize("kind", EITHER)
def test_a_cluster_is_set_up_and_cared_for(kind, tmp_path):
    """Set-up, a death, a return, a hang, its end, and a new interval; each set once throughout."""
    async def story(desk):
        async with cared_for(desk) as service:
            service.describe(of(desk), 23)
            await once(desk, service, ["agg-1", "agg-2"])

            service.commands.clear()
            desk.kill("agg-1")
            await once(desk, service, ["agg-2"])
            assert {"prdcr_start": 2} == service.commands
            assert [reports.DESCRIBED, reports.DOWN, reports.MOVED] == kinds(service)

            await desk.start("agg-1")
            await once(desk, service, ["agg-1", "agg-2"])
            assert 2 == service.commands["prdcr_stop"]
            assert {reports.RESTARTED, reports.BACK, reports.MOVED} == {*kinds(service)[3:]}

            service.commands.clear()
            desk.hang("agg-2")
            await once(desk, service, ["agg-1"])
            assert {"prdcr_start": 2, "prdcr_stop": 1} == service.commands

            def top():
                return next(one for one in service.make_status().daemons if one.name == "top-1")
            await until(lambda: _true((1, 4) == (top().connected, top().sets)), top)
            assert ("producer agg-2 is stopped while agg-2 does not answer",) == top().wrong
            [state] = [one for one in service.make_status().daemons if one.name == "agg-2"]
            assert ("hung", None, None) == (state.state, state.producers, state.sets)

            service.commands.clear()
            desk.go_on("agg-2")
            await once(desk, service, ["agg-1", "agg-2"])
            assert {"prdcr_stop": 2, "prdcr_start": 1} == service.commands
            assert () == top().wrong

            service.commands.clear()
            service.describe(of(desk, interval_us=500_000), 37)
            for name in NAMES[:4]:
                await desk.until(name, lambda seen: [500_000] == [
                    one.update_hint_us for one in seen.sets])
            assert {"stop": 4, "start": 4} == service.commands
            assert 37 == service.make_status().revision
            await once(desk, service, ["agg-1", "agg-2"])
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_advertised_producers_are_spread_as_they_come(kind, tmp_path):
    """And where one fails, the other starts what it has had by advertisement all along."""
    async def story(desk):
        async with cared_for(desk) as service:
            service.describe(advertised(of(desk), desk.ports), 23)
            await once(desk, service, ["agg-1", "agg-2"])
            placed = service.fleet.placement["aggs"]
            assert [2, 2] == [list(placed.values()).count(name) for name in ("agg-1", "agg-2")]

            desk.kill("agg-1")
            await once(desk, service, ["agg-2"])
            await desk.start("agg-1")
            await once(desk, service, ["agg-1", "agg-2"])
    run(kind, tmp_path, story)


@pytest.mark.parametrize("aggregators", [1, 2])
@pytest.mark.parametrize("kind", EITHER)
def test_peers_that_advertise_as_well_are_collected_once(kind, aggregators, tmp_path):
    """
    Two of the samplers are peers, and all advertise to each aggregator: ldmsd has two producers for
    each peer, and the one that came by itself is not started, or stopped again.
    """
    groups = ["agg-1", "agg-2"][:aggregators]

    async def story(desk):
        here = socket.gethostname()
        async with cared_for(desk) as service:
            twins = {f"{here}:{desk.ports[name]}" for name in ("node-1", "node-2")}
            made = of(desk, aggregators=aggregators)
            made = replace(made, daemons={name: replace(one, host=here.upper())
                                          for name, one in made.daemons.items()})
            [group, *above], came = made.aggregators, advertised(made, desk.ports)
            both = replace(came, aggregators=(replace(
                group, listens=came.aggregators[0].listens, producers=group.producers[:2]), *above))
            service.describe(both, 23)
            await once(desk, service, groups)
            for name in groups:
                seen = await desk.until(name, lambda seen: twins <= seen.producers.keys())
                assert {"STANDBY"} == {seen.producers[twin].state for twin in twins}
            assert {"node-1", "node-2", *(f"{here}:{desk.ports[name]}"
                                          for name in ("node-3", "node-4"))} == \
                service.fleet.placement["aggs"].keys()
            # One that is started by hand, or by its aggregator's own file, is stopped again.
            await desk.ask("agg-1", *(f"prdcr_start name={twin}" for twin in twins))
            await desk.until("agg-1", lambda seen: {"STANDBY"} == {
                seen.producers[twin].state for twin in twins})
            await once(desk, service, groups)
    run(kind, tmp_path, story)


def test_what_a_daemon_of_no_known_release_refuses_names_the_key_of_the_description(tmp_path):
    async def story(desk):
        says = {"version": '{"LDMSD Version":"UNKNOWN","LDMS Protocol Version":"4.2.0.0"}'}
        async with cared_for(desk, names=()) as service:
            for name in NAMES:
                await desk.start(name, says=says)
            service.describe(of(desk), 1)
            await once(desk, service, ["agg-1", "agg-2"])
            service.describe(of(desk, ports={**desk.ports, "node-1": desk.ports["node-2"],
                                             "node-2": desk.ports["node-1"]}), 2)
            await until(lambda: _true(reports.REFUSED in kinds(service)), service.make_status)
            assert all("(UNKNOWN) and is assumed to be LDMS 4.5: set ldms_release in the "
                       "description" in one.text
                       for one in service.heard_of if one.kind == reports.REFUSED)
    run("4.5.3", tmp_path, story)


def test_a_producer_that_ldmsd_does_not_delete_is_told(tmp_path):
    """4.5.3 deletes none that was started: it is stopped, and never said to be as described."""
    async def story(desk):
        async with cared_for(desk) as service:
            service.describe(of(desk), 1)
            await once(desk, service, ["agg-1", "agg-2"])
            service.describe(of(desk, ports={**desk.ports, "node-1": desk.ports["node-2"],
                                             "node-2": desk.ports["node-1"]}), 2)
            await until(lambda: _true(reports.REFUSED in kinds(service)), service.make_status)
            await until(lambda: _true(any("until its aggregator is restarted" in line
                                          for one in service.make_status().daemons
                                          for line in one.wrong)), service.make_status)
            [text] = {one.text for one in service.heard_of if one.kind == reports.REFUSED
                      and "prdcr_del name=node-1" in one.text}
            assert "errno 16" in text
            assert not all(one.as_described for one in service.make_status().daemons
                           if one.role == "aggregator")
    run("4.5.3", tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_stores_and_plugins_go_along_with_the_description(kind, tmp_path):
    """No command is refused, in either release, and what was described first is gone."""
    def stored(desk, schema, mode):
        plugins = (Plugin("meminfo", "meminfo", ((("schema", schema),),), 1_000_000, 0),)
        made = of(desk, plugins=plugins)
        csv = Plugin("store_csv", "store_csv", ((("path", str(tmp_path)),),))
        return replace(
            made, plugins={**made.plugins, "store_csv": csv},
            stores=(StoragePolicy(schema, ("top-1",), "store_csv", "csv", schema),),
            aggregators=tuple(replace(group, updaters=(replace(group.updaters[0], mode=mode),))
                              for group in made.aggregators))

    async def story(desk):
        async with cared_for(desk) as service:
            service.describe(stored(desk, "first", "pull"), 1)
            await once(desk, service, ["agg-1", "agg-2"])
            service.describe(stored(desk, "second", "auto_interval"), 2)
            seen = await desk.until("top-1", lambda seen: {"second"} == {
                one.schema for one in seen.sets} and 4 == len(seen.sets))
            assert ["second"] == [*seen.policies]
            assert seen.policies["second"].is_started
            assert seen.updaters["updtr_1"].auto_interval
            await until(lambda: _true(all(one.as_described for one
                                          in service.make_status().daemons)),
                        service.make_status)
            assert [] == [one for one in service.heard_of if one.kind == reports.REFUSED]
    run(kind, tmp_path, story)


def test_an_aggregator_that_another_secret_guards_keeps_its_producers(tmp_path):
    async def story(desk):
        async with cared_for(desk) as service:
            service.describe(of(desk), 1)
            await once(desk, service, ["agg-1", "agg-2"])
            before = dict(service.fleet.placement["aggs"])
            secret = tmp_path / "secret"
            secret.write_text("secretword=abcdefgh23\n")
            secret.chmod(0o600)
            made = of(desk)
            guarded = made.daemons["agg-1"]
            endpoint = replace(guarded.endpoints[0], auth=Auth("o", "ovis", str(secret)))
            service.describe(replace(made, daemons={
                **made.daemons, "agg-1": replace(guarded, endpoints=(endpoint,))}), 2)

            def state():
                return next(one for one in service.make_status().daemons if one.name == "agg-1")
            await until(lambda: _true(state().state == "down" and "ovis" in state().why), state)
            await desk.until("agg-1", lambda seen: 2 == len(seen.sets))
            assert before == service.fleet.placement["aggs"]
            assert 2 == len((await desk.observed("agg-2", with_sets=True)).sets)
    run("4.5.3", tmp_path, story)


def failing(fails, desk):
    """Connection.open; to agg-2 it fails with fails[0] where there is one."""
    async def connect(host, port, *others, **options):
        if fails and port == desk.ports["agg-2"]:
            raise fails[0](f"{host}:{port}", "no connection")
        return await Connection.open(host, port, *others, **options)
    return connect


def test_a_hung_one_whose_host_goes_is_left_above_until_its_process_is_known_to_be_dead(tmp_path):
    async def story(desk):
        fails = []
        async with cared_for(desk, connect=failing(fails, desk)) as service:
            def is_stopped():
                return not service.fleet.daemons["top-1"].observed.producers["agg-2"].is_started

            async def until_state(state, stopped):
                await until(lambda: _true(state == service.fleet.daemons["agg-2"].state
                                          and stopped == is_stopped()), service.make_status)
            service.describe(of(desk), 1)
            await once(desk, service, ["agg-1", "agg-2"])
            desk.hang("agg-2")
            await until_state("hung", True)
            fails.append(Unreachable)
            await until_state("down", True)
            await once(desk, service, ["agg-1"])
            assert is_stopped()
            fails[0] = NotConnected
            await until_state("down", False)
            fails.clear()
            desk.go_on("agg-2")
            await once(desk, service, ["agg-1", "agg-2"])
            assert 1 == kinds(service).count(reports.RESTARTED)
    run("4.5.3", tmp_path, story)


@pytest.mark.parametrize("error, restarts", [(Unreachable, 0), (NotConnected, 1)],
                         ids=["no route", "refused"])
def test_a_host_that_was_away_is_no_restart_of_its_daemon(error, restarts, tmp_path):
    async def story(desk):
        fails = []
        async with cared_for(desk, connect=failing(fails, desk)) as service:
            service.describe(of(desk), 1)
            await once(desk, service, ["agg-1", "agg-2"])
            fails.append(error)
            desk.hang("agg-2")
            await until(lambda: _true("down" == service.fleet.daemons["agg-2"].state),
                        service.make_status)
            desk.go_on("agg-2")
            fails.clear()
            await once(desk, service, ["agg-1", "agg-2"])
            assert restarts == service.fleet.daemons["agg-2"].restarts
            assert restarts == kinds(service).count(reports.RESTARTED)
    run("4.5.3", tmp_path, story)


def test_one_that_is_woken_again_and_again_is_asked_all_the_same(tmp_path):
    async def story(desk):
        async with cared_for(desk) as service:
            service.describe(of(desk), None)

            async def is_set_up():
                states = service.make_status().daemons
                return states and all(state.as_described for state in states)
            await until(is_set_up, lambda: service.make_status())
            desk.hang("agg-1")

            async def is_seen():
                service.describe(of(desk), None)        # more often than it is asked
                return [one for one in service.heard_of if one.kind == reports.HUNG]
            await until(is_seen, lambda: service.heard_of)
    run("4.5.3", tmp_path, story)


def test_one_that_left_and_has_nothing_of_the_description_is_not_asked_any_more(tmp_path):
    lost = []

    async def story(desk):
        async with cared_for(desk) as service:
            service.lost = lambda name, *more, **others: lost.append(name)
            service.describe(of(desk), None)

            async def is_set_up():
                return {"agg-1", "agg-2"} == {name for names in (
                    await collected(desk, ("agg-1", "agg-2"))).values() for name in names}
            await until(is_set_up, lambda: service.make_status())
            service.describe(of(desk, aggregators=1), None)

            async def is_gone():
                return "agg-2" not in service.fleet.daemons
            await until(is_gone, lambda: service.make_status())
            await asyncio.sleep(2 * QUICK.poll_s)
    run("4.5.3", tmp_path, story)
    assert [] == lost


def test_one_that_is_not_ours_is_told_nothing(tmp_path):
    async def story(desk):
        async with cared_for(desk, groups_owned=lambda: {"aggs"}) as service:
            service.describe(of(desk), 1)
            await desk.until("agg-1", lambda seen: seen.updaters)
            await until(lambda: _true(all(one.as_described for one
                                          in service.make_status().daemons)),
                        service.make_status)
            assert {"agg-1", "agg-2"} == {one.name for one in service.make_status().daemons}
            assert {} == (await desk.observed("node-1")).plugins
            assert {} == (await desk.observed("top-1")).updaters
    run("4.5.3", tmp_path, story)


def test_without_leave_nothing_is_sent(tmp_path):
    """may_command is asked before each command, not once a batch."""
    async def story(desk):
        leave = []

        def may_command(group):
            leave.append(group)
            return len(leave) <= 3
        async with cared_for(desk, ("node-1", "agg-1", "top-1"), may_command=may_command,
                             groups_owned=lambda: {"aggs"}) as service:
            service.describe(of(desk, samplers=1, aggregators=1), 1)
            await until(lambda: _true(len(leave) > 6), service.make_status)
            assert 3 == sum(service.commands.values())
            assert {"aggs"} == set(leave)
            [state] = service.make_status().daemons
            assert not state.as_described
            assert state.wrong
    run("4.5.3", tmp_path, story)


def test_a_refused_command_is_told_once_and_the_rest_is_done(tmp_path):
    async def story(desk):
        plugins = (Plugin("meminfo", "meminfo", (), 1_000_000, 0),
                   Plugin("wrong", "no_such_plugin", (), 1_000_000, 0))
        async with cared_for(desk) as service:
            service.describe(of(desk, plugins=plugins), 1)
            await until(
                lambda: _true(sum(kind == reports.REFUSED for kind in kinds(service)) >= 12),
                service.make_status)
            refused = [one.text for one in service.heard_of if one.kind == reports.REFUSED]
            assert 3 * 4 == len(refused) == len(set(refused))       # load, config, start
            assert any(text.startswith("node-1 refused: load name=wrong plugin=no_such_plugin: "
                                       "errno 2 ") for text in refused)
            await desk.until("top-1", lambda seen: 4 == len(seen.sets))
    run("4.5.3", tmp_path, story)


def test_a_configuration_that_was_refused_is_told_again_until_it_is_taken(tmp_path):
    """Its set is another plugin's, for a while."""
    async def story(desk):
        async with cared_for(desk) as service:
            assert [0, 0] == await desk.errnos(
                "node-2", "load name=other plugin=meminfo",
                "config name=other producer=node-2 instance=node-2/meminfo")
            service.describe(of(desk), 1)

            def of_node_2():
                return next(one for one in service.make_status().daemons if one.name == "node-2")

            async def is_refused():
                return [one for one in service.heard_of if one.kind == reports.REFUSED]
            await until(is_refused, service.make_status)

            async def is_shown():
                return any("config name=meminfo" in line for line in of_node_2().wrong)
            await until(is_shown, service.make_status)
            await asyncio.sleep(3 * QUICK.poll_s)
            assert not of_node_2().as_described and await is_shown()
            assert [0] == await desk.errnos("node-2", "term name=other")
            await desk.until("node-2", lambda seen: [1_000_000] == [
                one.update_hint_us for one in seen.sets])
            await until(lambda: _true(of_node_2().as_described), service.make_status)
    run("4.5.3", tmp_path, story)


def test_what_is_changed_by_hand_is_put_right_and_told(tmp_path):
    async def story(desk):
        async with cared_for(desk) as service:
            service.describe(of(desk), 1)
            await once(desk, service, ["agg-1", "agg-2"])
            await until(lambda: _true(service.is_stable()), service.make_status)
            await desk.ask("agg-1", "updtr_stop name=updtr_0", "prdcr_add name=by-hand "
                           f"host=127.0.0.1 port={desk.ports['top-1']} xprt=sock type=active "
                           "reconnect=1s", "prdcr_start name=by-hand")
            await desk.until("agg-1", lambda seen: seen.updaters["updtr_0"].is_started)
            await until(lambda: _true({reports.CORRECTED, reports.FOREIGN} <= set(kinds(service))),
                        lambda: service.heard_of)
            assert (await desk.observed("agg-1")).producers["by-hand"].is_started
    run("4.5.3", tmp_path, story)


def test_producers_and_their_sets_are_read_at_each_poll_of_a_small_cluster(tmp_path):
    """They change without the counter of changes: every fifth poll was up to 10 s behind."""
    async def story(desk):
        verbs = []

        async def connect(host, port, *others, **options):
            connection = await Connection.open(host, port, *others, **options)
            return Recording(connection, verbs) if port == desk.ports["agg-1"] else connection
        async with cared_for(desk, connect=connect) as service:
            service.describe(of(desk), 1)
            await once(desk, service, ["agg-1", "agg-2"])
            verbs.clear()
            await until(lambda: _true(4 == verbs.count("prdcr_status")), lambda: verbs)
            between = "".join("P" if verb == "prdcr_status" else "." for verb in verbs
                              if verb in ("prdcr_status", "cfg_cntr")).strip(".").split("P")
            assert ["", "..", "..", "..", ""] == between
            [status] = [one for one in service.make_status().daemons if one.name == "agg-1"]
            assert status.read_at >= status.since > 0
    run("4.5.3", tmp_path, story)


class Recording:
    """A Connection; the verbs of its commands are in `verbs`."""

    def __init__(self, connection, verbs):
        self._connection, self._verbs = connection, verbs

    def __getattr__(self, name):
        return getattr(self._connection, name)

    async def command(self, statement):
        self._verbs.append(statement.verb)
        return await self._connection.command(statement)


@pytest.mark.parametrize("aggregators, producers, polls", [
    (3, 1000, 1), (20, 1000, 1), (23, 1000, 2), (29, 2000, 3), (100, 8000, 5)])
def test_where_reading_all_producers_takes_long_it_is_done_in_fewer_polls(aggregators, producers,
                                                                          polls):
    """At the usual poll of 2 s, in which 20,000 producers of all aggregators may be read."""
    service = Service()
    service.describe(described(samplers=2, aggregators=aggregators), 1)
    for name in service.description.aggregators[0].members:
        service.fleet.daemons[name].observed = ObservedState(1, producers=dict.fromkeys(
            range(producers)))     # only their number counts
    assert (polls, 5) == (service.count_polls_per_full_query("agg-1"),
                          service.count_polls_per_full_query("node-1"))


async def _true(value):
    return value
