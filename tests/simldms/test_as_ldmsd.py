"""
What ldmsd answers, in its order: the simulated of both releases, and the real one on PATH.

The errnos were measured at ldmsd 4.5.3 and 4.4.6 by LDMS' own controller.
"""

import asyncio
import socket

import pytest
from ldms_desk import EITHER, producer_line, run, sampler_lines
from processes import free_port

from iostats_ldms.control.errors import ControlError

EPERM, ENOENT, ENOEXEC, EBUSY, EEXIST, EINVAL, ENOSYS = 1, 2, 8, 16, 17, 22, 38


def of(errno_of_4_5, errno_of_4_4):
    return {"4.5": errno_of_4_5, "4.4": errno_of_4_4}


SAMPLERS = [
    ("load name=meminfo", 0),
    ("load name=meminfo", EEXIST),
    ("load name=nosuch", of(ENOENT, -1)),
    ("load name=mem2 plugin=meminfo", of(0, -1)),
    ("config name=nosuch producer=x instance=x/y", ENOENT),
    ("config name=meminfo producer=node-23 instance=node-23/meminfo", 0),
    ("config name=meminfo producer=node-23 instance=node-23/meminfo", of(EBUSY, EINVAL)),
    ("start name=meminfo", EINVAL),
    ("start name=meminfo interval=soon", EINVAL),
    ("start name=nosuch interval=1s", ENOENT),
    ("start name=meminfo interval=2s offset=100ms", 0),
    ("start name=meminfo interval=1s", EBUSY),
    ("term name=meminfo", of(EBUSY, EINVAL)),
    ("stop name=meminfo", 0),
    ("stop name=meminfo", EINVAL),
    ("stop name=nosuch", ENOENT),
    ("term name=meminfo", 0),
    ("load name=meminfo", 0),
    ("start name=meminfo interval=1000000", 0),
    ("config name=meminfo producer=node-23 instance=node-23/meminfo", 0),
    ("load name=vmstat", 0),
    ("config name=vmstat", EINVAL),
    ("config name=vmstat producer=node-23 instance=node-23/vmstat", 0),
    ("config name=vmstat producer=node-23 instance=node-23/vmstat", EINVAL),
    ("load name=store_none", 0),
    ("start name=store_none interval=1s", of(ENOENT, EINVAL)),
]

PRODUCERS = [
    (producer_line("n1", 9), 0),
    (producer_line("n1", 9), EEXIST),
    (producer_line("n2", "x"), EINVAL),
    (producer_line("n2", 9, kind="activ"), EINVAL),
    (producer_line("n2", 9, kind="bridge"), of(0, EINVAL)),
    (producer_line("n3", 9, reconnect="0"), EINVAL),
    (producer_line("n3", 9, reconnect="soon"), EINVAL),
    ("prdcr_add name=n3 host=127.0.0.1 port=9 type=active reconnect=1s", EINVAL),
    (producer_line("n3", 9) + " auth=nosuch", ENOENT),
    (producer_line("n3", 9, host="nosuchhost.invalid"), 0),
    ("prdcr_add name=n4 host=127.0.0.1 xprt=sock type=passive reconnect=1s", of(0, EINVAL)),
    ("prdcr_start name=nosuch", ENOENT),
    ("prdcr_start name=n1 reconnect=soon", EINVAL),
    ("prdcr_start name=n1 reconnect=0", -EINVAL),
    ("prdcr_start name=n1 reconnect=37s", 0),
    ("prdcr_start name=n1", EBUSY),
    ("prdcr_del name=n1", EBUSY),
    ("prdcr_stop name=n1", 0),
    ("prdcr_stop name=n1", 0),
    ("prdcr_stop name=nosuch", ENOENT),
    ("prdcr_del name=n3", 0),
    ("prdcr_del name=n3", ENOENT),
    ("prdcr_status name=nosuch", ENOENT),
    ("prdcr_start_regex regex=nomatch", of(0, EPERM)),
    ("prdcr_start_regex regex=[", ENOENT),
    ("prdcr_stop_regex regex=nomatch", 0),
    ("prdcr_subscribe regex=.* stream=s1", 0),
    ("prdcr_subscribe regex=.* stream=s1", 0),
    ("prdcr_subscribe regex=nomatch stream=s1", 0),
    ("prdcr_subscribe regex=[ stream=s1", ENOENT),
    ("prdcr_subscribe regex=n1", EINVAL),
    ("prdcr_subscribe stream=s1", EINVAL),
    ("prdcr_subscribe regex=.* message_tag=m1", of(0, EINVAL)),
    ("prdcr_stream_status regex=.*", ENOENT),
]

UPDATERS = [
    (producer_line("n1", 9), 0),
    ("updtr_add name=u1 interval=1s offset=100ms", 0),
    ("updtr_add name=u1 interval=1s", EEXIST),
    ("updtr_add name=u2", EINVAL),
    ("updtr_add name=u2 interval=soon", EINVAL),
    ("updtr_add name=u2 interval=0", EINVAL),
    ("updtr_add name=u2 interval=1s offset=600ms", EINVAL),
    ("updtr_add name=u2 interval=1s offset=-500ms", 0),
    ("updtr_add name=u3 interval=1s push=True auto_interval=True", EINVAL),
    ("updtr_add name=u3 interval=1s auto_interval=yes", EINVAL),
    ("updtr_add name=u3 interval=1s push=onchange", 0),
    ("updtr_add name=u4 interval=1s auto_interval=True", 0),
    ("updtr_prdcr_add name=u1 regex=.*", 0),
    ("updtr_prdcr_add name=u1 regex=nomatch", 0),
    ("updtr_prdcr_add name=u1 regex=[", EINVAL),
    ("updtr_prdcr_add name=nosuch regex=.*", ENOENT),
    ("updtr_match_add name=u1 regex=mem match=inst", 0),
    ("updtr_match_add name=u1 regex=vmstat match=schema", 0),
    ("updtr_match_add name=u1 regex=x match=foo", EINVAL),
    ("updtr_match_add name=u1 regex=[ match=inst", EINVAL),
    ("updtr_match_add name=nosuch regex=x match=inst", ENOENT),
    ("updtr_match_del name=u1 regex=vmstat match=schema", 0),
    ("updtr_match_del name=u1 regex=vmstat match=schema", ENOENT),
    ("updtr_start name=nosuch", ENOENT),
    ("updtr_start name=u1", 0),
    ("updtr_start name=u1", EBUSY),
    ("updtr_prdcr_add name=u1 regex=.*", EBUSY),
    ("updtr_prdcr_del name=u1 regex=.*", EBUSY),
    ("updtr_match_add name=u1 regex=x match=inst", EBUSY),
    ("updtr_match_del name=u1 regex=mem match=inst", EBUSY),
    ("updtr_del name=u1", EBUSY),
    ("updtr_stop name=u1", 0),
    ("updtr_stop name=u1", 0),
    ("updtr_stop name=nosuch", ENOENT),
    ("updtr_start name=u1 interval=0", EINVAL),
    ("updtr_start name=u1 interval=500ms offset=200ms", 0),
    ("updtr_stop name=u2", 0),
    ("updtr_prdcr_del name=u2 regex=.*", 0),
    ("updtr_del name=u2", 0),
    ("updtr_del name=u2", ENOENT),
    ("updtr_status name=nosuch", ENOENT),
]

POLICIES = [
    ("load name=store_csv", 0),
    ("config name=store_csv path=/nosuch", 0),
    ("strgp_add name=p1 plugin=store_csv container=c schema=meminfo flush=2s", 0),
    ("strgp_prdcr_add name=p1 regex=.*", 0),
    ("strgp_prdcr_add name=p1 regex=[", ENOENT),
    ("strgp_prdcr_add name=nosuch regex=.*", ENOENT),
    ("strgp_prdcr_del name=p1 regex=nomatch", ENOENT),
    ("strgp_metric_add name=p1 metric=Active", 0),
    ("strgp_metric_del name=p1 metric=Active", 0),
    ("strgp_start name=nosuch", ENOENT),
    ("strgp_start name=p1", 0),
    ("strgp_start name=p1", EBUSY),
    ("strgp_add name=p1 plugin=store_csv container=c schema=meminfo", EEXIST),
    ("strgp_prdcr_add name=p1 regex=.*", EBUSY),
    ("strgp_prdcr_del name=p1 regex=.*", EBUSY),
    ("strgp_metric_add name=p1 metric=Active", EBUSY),
    ("strgp_del name=p1", EBUSY),
    ("term name=store_csv", of(EBUSY, EINVAL)),
    ("strgp_add name=p2 plugin=nosuch container=c schema=meminfo", ENOENT),
    ("strgp_add name=p2 plugin=store_csv container=c", EINVAL),
    ("strgp_add name=p2 plugin=store_csv schema=meminfo", of(0, EINVAL)),
    ("strgp_add name=p3 plugin=store_csv container=c schema=meminfo regex=x", EINVAL),
    ("strgp_add name=p3 plugin=store_csv container=c regex=x", EINVAL),
    ("strgp_add name=p3 plugin=store_csv container=c schema=meminfo flush=soon", ENOENT),
    ("strgp_stop name=p1", 0),
    ("strgp_stop name=p1", EBUSY),
    ("strgp_stop name=nosuch", ENOENT),
    ("strgp_del name=p1", 0),
    ("strgp_del name=p1", ENOENT),
    ("strgp_status name=p1", ENOENT),
]

REMOVED = [
    ("load name=store_none", 0),
    ("strgp_add name=p1 plugin=store_none container=c schema=meminfo", 0),
    ("strgp_status name=p1", 0),
    ("strgp_add name=p1 plugin=store_none container=c schema=meminfo", EEXIST),
    ("strgp_status name=p1", ENOENT),
]

ADVERTISED = [
    ("auth_add name=none1 plugin=none", 0),
    ("auth_add name=none1 plugin=none", EEXIST),
    ("prdcr_listen_add name=l1 reconnect=1s", 0),
    ("prdcr_listen_add name=l1", EEXIST),
    ("prdcr_listen_add name=l2 regex=[", EINVAL),
    ("prdcr_listen_add name=l2 ip=x", EINVAL),
    ("prdcr_listen_add name=l2 regex=x ip=10.0.0.0/8 disable_start=true", 0),
    ("prdcr_listen_start name=nosuch", ENOENT),
    ("prdcr_listen_start name=l1", 0),
    ("prdcr_listen_start name=l1", 0),
    ("prdcr_listen_del name=l1", EBUSY),
    ("prdcr_listen_stop name=l1", 0),
    ("prdcr_listen_stop name=l1", 0),
    ("prdcr_listen_stop name=nosuch", ENOENT),
    ("prdcr_listen_del name=l1", of(EBUSY, 0)),
    ("prdcr_listen_del name=l2", of(EBUSY, 0)),
    ("prdcr_listen_del name=l3", ENOENT),
    ("advertiser_add name=ad1 xprt=sock host=127.0.0.1 port=9 reconnect=1s", 0),
    ("advertiser_add name=ad1 xprt=sock host=127.0.0.1 port=9 reconnect=1s", EEXIST),
    ("advertiser_add name=ad2 xprt=sock host=127.0.0.1 port=9", EINVAL),
    ("advertiser_start name=nosuch", EINVAL),
    ("advertiser_start name=ad1", 0),
    ("advertiser_start name=ad1", EBUSY),
    ("advertiser_del name=ad1", EBUSY),
    ("advertiser_stop name=ad1", 0),
    ("advertiser_stop name=ad1", 0),
    ("advertiser_stop name=nosuch", ENOENT),
    ("advertiser_del name=nosuch", ENOENT),
    ("listen xprt=sock port=9x host=127.0.0.1 auth=nosuch", ENOENT),
    ("stream_status", of(ENOSYS, 0)),
    ("env FOO=bar", 0),
]

STORIES = {"samplers": SAMPLERS, "producers": PRODUCERS, "updaters": UPDATERS,
           "policies": POLICIES, "a policy that is added twice": REMOVED,
           "advertisers": ADVERTISED}


@pytest.mark.parametrize("kind", EITHER)
@pytest.mark.parametrize("lines", STORIES.values(), ids=STORIES)
def test_each_statement_is_answered_with_its_errno(lines, kind, tmp_path):
    async def story(desk):
        await desk.start("ldmsd")
        expected = [(line, errno[desk.release] if isinstance(errno, dict) else errno)
                    for line, errno in lines]
        replies = await desk.ask("ldmsd", *[line for line, _ in lines])
        assert expected == [(line, reply.errno) for (line, _), reply in zip(lines, replies)]
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_the_counter_rises_with_each_change_that_was_carried_out(kind, tmp_path):
    """listen of its file is one; questions, refusals, listeners and advertisers are none."""
    async def story(desk):
        await desk.start("ldmsd")
        assert 1 == (await desk.observed("ldmsd")).config_counter
        await desk.ask("ldmsd", producer_line("n1", 9), producer_line("n1", 9), "prdcr_status",
                       "prdcr_start name=n1", "prdcr_stop name=n1", "prdcr_stop name=n1",
                       "updtr_stop name=nosuch", "prdcr_listen_add name=l1",
                       "prdcr_listen_start name=l1", "prdcr_subscribe regex=.* stream=s1",
                       "advertiser_add name=a xprt=sock host=127.0.0.1 port=9 reconnect=1s")
        assert 7 == (await desk.observed("ldmsd")).config_counter
    run(kind, tmp_path, story)


async def two_levels(desk):
    """node-23, an aggregator that collects it, and one above that."""
    await desk.start("node-23", *sampler_lines("node-23"))
    for name, below in (("agg-1", "node-23"), ("top", "agg-1")):
        await desk.start(name, producer_line(below, desk.ports[below], reconnect="200ms"),
                         "updtr_add name=u1 interval=500ms offset=100ms",
                         f"updtr_prdcr_add name=u1 regex={below}",
                         "updtr_match_add name=u1 regex=node-23/ match=inst",
                         "updtr_start name=u1", f"prdcr_start name={below}")


def ready(producer):
    def holds(seen):
        one = seen.producers[producer]
        return one.state == "CONNECTED" and [s.state for s in one.sets] == ["READY"]
    return holds


@pytest.mark.parametrize("kind", EITHER)
def test_what_an_aggregator_says_of_what_it_collects(kind, tmp_path):
    """The hint of a collected set is that of its updater here, no longer its sampler's."""
    async def story(desk):
        await two_levels(desk)
        seen = await desk.until("top", ready("agg-1"))
        assert [("node-23/meminfo", "meminfo", 500_000, 100_000)] == [
            (one.instance, one.schema, one.update_hint_us, one.offset_us) for one in seen.sets]
        updater = seen.updaters["u1"]
        assert (500_000, 100_000, "pull", False, "RUNNING", ("agg-1",),
                (("node-23/", "inst"),)) == (
            updater.interval_us, updater.offset_us, updater.mode, updater.auto_interval,
            updater.state, updater.producers, updater.matches)
        assert desk.release == seen.release[:3]
        first = seen.sets[0].sampled_s
        seen = await desk.until("top", lambda seen: seen.sets and seen.sets[0].sampled_s > first)
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_a_killed_daemon_and_one_that_comes_back(kind, tmp_path):
    async def story(desk):
        await two_levels(desk)
        await desk.until("top", ready("agg-1"))
        desk.kill("node-23")
        seen = await desk.until("agg-1", lambda seen: not seen.sets)
        assert "CONNECTED" != seen.producers["node-23"].state
        assert seen.producers["node-23"].is_started
        await desk.until("top", lambda seen: not seen.sets)
        await desk.start("node-23")
        await desk.until("top", ready("agg-1"))
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_a_producer_that_is_stopped_has_no_sets_and_starts_again(kind, tmp_path):
    async def story(desk):
        await two_levels(desk)
        await desk.until("top", ready("agg-1"))
        assert [0] == await desk.errnos("agg-1", "prdcr_stop name=node-23")
        seen = await desk.until("agg-1", lambda seen: not seen.sets)
        assert "STOPPED" == seen.producers["node-23"].state
        await desk.until("top", lambda seen: not seen.sets)
        assert [0] == await desk.errnos("agg-1", "prdcr_start name=node-23")
        await desk.until("top", ready("agg-1"))
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_a_sampler_that_is_started_anew_shows_its_new_interval(kind, tmp_path):
    async def story(desk):
        await two_levels(desk)
        await desk.until("top", ready("agg-1"))
        assert [0, 0] == await desk.errnos("node-23", "stop name=meminfo",
                                           "start name=meminfo interval=250ms offset=50ms")
        seen = await desk.until("node-23", lambda seen: seen.sets[0].update_hint_us == 250_000)
        assert 50_000 == seen.sets[0].offset_us
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_a_hung_daemon_is_connected_and_answers_nothing(kind, tmp_path):
    async def story(desk):
        await desk.start("node-23", *sampler_lines("node-23"))
        desk.hang("node-23")
        try:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(desk.ask("node-23", "daemon_status"), 0.5)
        finally:
            desk.go_on("node-23")
        assert [0] == await desk.errnos("node-23", "daemon_status")
    run(kind, tmp_path, story)


@pytest.mark.parametrize("starts", [True, False], ids=["started at once", "disable_start"])
@pytest.mark.parametrize("kind", EITHER)
def test_a_sampler_that_advertises_itself(kind, starts, tmp_path):
    """
    Its producer is in the running updater without a word.  Stopped, it advertises itself again and
    stands by; started then, it is connected at once.
    """
    async def story(desk):
        await desk.start("agg", "prdcr_listen_add name=l1 disable_start=" + str(not starts).lower(),
                         "prdcr_listen_start name=l1", "updtr_add name=u1 interval=500ms",
                         "updtr_prdcr_add name=u1 regex=.*", "updtr_start name=u1")
        await desk.start("node-23", *sampler_lines("node-23"),
                         "advertiser_add name=adv1 xprt=sock host=127.0.0.1 reconnect=200ms "
                         f"port={desk.ports['agg']}", "advertiser_start name=adv1")
        name = f"{socket.gethostname()}:{desk.ports['node-23']}"
        if not starts:
            seen = await desk.until("agg", stands_by(name))
            assert [0] == await desk.errnos("agg", f"prdcr_start name={name}")
        seen = await desk.until("agg", lambda seen: name in seen.producers and ready(name)(seen))
        assert {"4.5": "advertised, passive", "4.4": "advertised"}[desk.release] == \
            seen.producers[name].kind
        assert ((name,), (name,)) == (seen.listens["l1"].producers, seen.updaters["u1"].producers)
        assert [0] == await desk.errnos("agg", f"prdcr_stop name={name}")
        seen = await desk.until("agg", stands_by(name))
        assert [0] == await desk.errnos("agg", f"prdcr_start name={name}")
        await desk.until("agg", ready(name))
        assert [EBUSY] == await desk.errnos("agg", f"prdcr_start name={name}")
        desk.kill("node-23")
        await desk.until("agg", lambda seen: seen.producers[name].state == "DISCONNECTED")
        assert [EBUSY, 0, EBUSY] == await desk.errnos(
            "agg", f"prdcr_del name={name}", f"prdcr_stop name={name}", f"prdcr_del name={name}")
    run(kind, tmp_path, story)


def stands_by(name):
    return lambda seen: name in seen.producers and seen.producers[name].state == "STANDBY"


@pytest.mark.parametrize("kind", EITHER)
def test_what_a_file_starts_is_started_when_all_of_it_was_read(kind, tmp_path):
    """So the producer is in the updater; and these starts are not counted."""
    async def story(desk):
        await desk.start("agg", producer_line("n1", 9), "prdcr_start name=n1",
                         "updtr_add name=u1 interval=1s", "updtr_start name=u1",
                         "updtr_prdcr_add name=u1 regex=.*")
        seen = await desk.observed("agg")
        assert (4, ("n1",), True, True) == (
            seen.config_counter, seen.updaters["u1"].producers, seen.updaters["u1"].is_started,
            seen.producers["n1"].is_started)
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_a_policy_shows_what_it_was_told(kind, tmp_path):
    async def story(desk):
        await desk.start("agg", "load name=store_none",
                         "strgp_add name=p1 plugin=store_none container=c schema=meminfo flush=2s",
                         "strgp_prdcr_add name=p1 regex=n2.*", "strgp_start name=p1")
        one = (await desk.observed("agg")).policies["p1"]
        assert ("store_none", "c", "meminfo", "", 2_000_000, True, ("n2.*",)) == (
            one.plugin, one.container, one.schema, one.regex, one.flush_us, one.is_started,
            one.producers)
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_what_a_sampler_says_of_its_plugins(kind, tmp_path):
    """4.4 tells the interval; 4.5 does not, and its sets' hint does."""
    async def story(desk):
        await desk.start("node-23", "load name=vmstat", *sampler_lines("node-23", interval="2s"))
        seen = await desk.observed("node-23", with_sets=True)
        assert {"4.5": None, "4.4": 2_000_000}[desk.release] == seen.plugins["meminfo"].interval_us
        assert ("meminfo", "sampler", ("node-23/meminfo",)) == (
            seen.plugins["meminfo"].plugin, seen.plugins["meminfo"].kind,
            seen.plugins["meminfo"].sets)
        assert () == seen.plugins["vmstat"].sets
        assert [(2_000_000, 0)] == [(one.update_hint_us, one.offset_us) for one in seen.sets]
    run(kind, tmp_path, story)


STREAM, MESSAGE = "prdcr_subscribe regex=.* stream=s1", "prdcr_subscribe regex=.* message_tag=m1"
NO_STREAM = STREAM.replace("subscribe", "unsubscribe")
NO_MESSAGE = MESSAGE.replace("subscribe", "unsubscribe")


@pytest.mark.parametrize("kind", EITHER)
@pytest.mark.parametrize("lines, dies_of_it", [
    ([*sampler_lines("node-23")[:2], "start name=meminfo interval=0"], ("4.5", "4.4")),
    (["set_stats"], ("4.4",)),
    ([STREAM, MESSAGE, NO_STREAM], ("4.5",)),
    ([MESSAGE, STREAM, NO_STREAM], ()),
    ([STREAM, NO_MESSAGE], ("4.5",)),
    ([STREAM, MESSAGE, NO_MESSAGE], ()),
], ids=["interval 0", "set_stats", "a stream under a message", "a message under a stream",
        "no message", "a message above a stream"])
def test_what_ldmsd_dies_of(lines, dies_of_it, kind, tmp_path):
    async def story(desk):
        await desk.start("ldmsd", producer_line("n1", 9))
        if desk.release in dies_of_it:
            with pytest.raises(ControlError):
                await desk.ask("ldmsd", *lines)
        else:
            await desk.ask("ldmsd", *lines)
            assert [0] == await desk.errnos("ldmsd", "daemon_status")
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_a_producer_with_a_secret_word(kind, tmp_path):
    """By a listener of its own; who has another word gets nothing, and tries on."""
    async def story(desk):
        for name in ("ours", "other"):
            (tmp_path / name).write_text(f"secretword={name}-23-37-41\n")
            (tmp_path / name).chmod(0o600)
        guarded = free_port()
        await desk.start("node-23", *sampler_lines("node-23"),
                         f"auth_add name=own plugin=ovis conf={tmp_path}/ours",
                         f"listen xprt=sock port={guarded} host=127.0.0.1 auth=own")
        await desk.start("agg", *(line for name in ("ours", "other") for line in (
            f"auth_add name={name} plugin=ovis conf={tmp_path}/{name}",
            producer_line(name, guarded, reconnect="200ms") + f" auth={name}",
            f"prdcr_start name={name}")), "updtr_add name=u1 interval=500ms",
            "updtr_prdcr_add name=u1 regex=.*", "updtr_start name=u1")
        seen = await desk.until("agg", ready("ours"))
        assert () == seen.producers["other"].sets
    run(kind, tmp_path, story)


@pytest.mark.parametrize("kind", EITHER)
def test_the_sets_of_a_hung_producer_stand_still_and_none_other_has_them_before_it_is_stopped(
        kind, tmp_path):
    """For longer than the 5 s in which an answer is expected; then those of the other come."""
    updater = ("updtr_add name=u interval=500000 offset=100000", "updtr_prdcr_add name=u regex=.*",
               "updtr_start name=u")

    async def story(desk):
        await desk.start("node-23", *sampler_lines("node-23", interval="500000"))
        for name in ("agg-1", "agg-2"):
            await desk.start(name, producer_line("node-23", desk.ports["node-23"]),
                             "prdcr_start name=node-23", *updater)
        await desk.until("agg-1", has_it)
        await desk.start("top-1", producer_line("a-1", desk.ports["agg-1"]),
                         producer_line("b-2", desk.ports["agg-2"]), "prdcr_start name=a-1",
                         *updater)
        await desk.until("top-1", has_it)
        assert [0] == await desk.errnos("top-1", "prdcr_start name=b-2")
        desk.hang("agg-1")
        seen = []                           # what it has sent before comes late on a busy machine
        while len(seen) < 2 or seen[-2].sets[0].sampled_s != seen[-1].sets[0].sampled_s:
            await asyncio.sleep(1.0)
            seen.append(await desk.observed("top-1", with_sets=True))
        before = seen[-1]
        await asyncio.sleep(6.0)
        after = await desk.observed("top-1", with_sets=True)
        assert before.sets[0].sampled_s == after.sets[0].sampled_s
        assert {"CONNECTED"} == {one.state for one in after.producers.values()}

        assert [0] == await desk.errnos("top-1", "prdcr_stop name=a-1")
        await desk.until("top-1", lambda seen: [True] == [
            one.sampled_s > after.sets[0].sampled_s for one in seen.sets])
        desk.go_on("agg-1")

    def has_it(seen):
        return any(one.sampled_s for one in seen.sets)
    run(kind, tmp_path, story)
