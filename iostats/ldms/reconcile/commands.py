"""
The fewest commands that make of what a daemon has what the description wants of it.

A producer that stays is not stopped.  All producers are there, stopped, before an updater starts:
ldmsd adds to an updater those that it has at that moment, and refuses a running one (EBUSY).
An updater that is stopped and started again loses no set: its producers stay connected.

Measured on ldmsd 4.4.6 and 4.5.3: a producer that was started is not deleted any more until its
daemon ends (4.5.3, EBUSY); `start` keeps a set's hint when its plugin is stopped; only `start`
itself tells whether a plugin of 4.5 runs (EBUSY).
"""

from __future__ import annotations

from iostats.ldms.description.regexes import matching, one_of
from iostats.ldms.reconcile.memory import Memory, Step, stream_of
from iostats.ldms.statements import parts
from iostats.ldms.statements.statement import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iostats.ldms.control.observed import Observed, UpdaterSeen
    from iostats.ldms.reconcile.wanted import Wanted, WantedPlugin, WantedUpdater

HOLDS = ("LOOKUP", "READY", "UPDATING")         # states of a set that is collected
_SILENT = "it does not answer, and other producers have its sets"


def commands(wanted: Wanted, observed: Observed, memory: Memory) -> list[Step]:
    """What to tell the daemon, in this order; [] where it has all that is wanted."""
    stops, additions, starts = _of_producers(wanted, observed, memory)
    return [*stops,                             # first: other daemons wait for it
            *(Step(each, "it has not been told yet",
                   is_question=_may_be_told(each, wanted, observed))
              for each in wanted.once if each not in memory.once),
            *_plugins(wanted, observed, memory),
            *_advertisers(wanted, observed),
            *_listens(wanted, observed),
            *additions,
            *_updaters(wanted, observed),
            *_policies(wanted, observed),
            *_former_plugins(wanted, observed),     # no policy has them any more
            *_subscriptions(wanted, observed, memory),
            *starts]


def _may_be_told(statement: Statement, wanted: Wanted, observed: Observed) -> bool:
    """
    Whether what no question tells is there as a rule: the daemon has something that we want.

    A domain of authentication is there when a producer is that was added with it.  A further
    listener is none of it: it may be new.
    """
    if statement.verb == "listen":
        return False
    name = dict(statement.attributes).get("name")
    users = [each.name for each in wanted.producers if statement.verb == "auth_add"
             and each.add is not None and ("auth", name) in each.add.attributes]
    if users:
        return any(each in observed.producers for each in users)
    return any(each.name in observed.plugins for each in wanted.plugins) \
        or any(each.name in observed.producers for each in wanted.producers)


def beyond_us(wanted: Wanted, observed: Observed, memory: Memory) -> list[str]:
    """What no command makes as it is wanted, one line each."""
    return [f"producer {each.name} stands for {there.host}:{there.port} until its ldmsd is "
            f"restarted, which does not delete a producer that was started"
            for each in wanted.producers if each.name in memory.kept
            for there in [observed.producers.get(each.name)]
            if there is not None and each.add is not None
            and (there.host, there.port) != (each.host, each.port)]


def foreign(all_wanted: Iterable[Wanted], observed: Observed) -> list[str]:
    """What runs there, and no description wanted it, one line each; it is left alone."""
    ours: set[tuple[str, str]] = set()
    for wanted in all_wanted:
        ours |= wanted.names() | wanted.former
    listened = {name for listen in observed.listens.values() for name in listen.producers}
    found = [f"producer {name}" for name, seen in observed.producers.items()
             if seen.is_started and seen.kind == "active" and ("producer", name) not in ours
             and name not in listened]
    found += [f"updater {name}" for name, updater in observed.updaters.items()
              if updater.is_started and ("updater", name) not in ours]
    found += [f"plugin {name}" for name, plugin in observed.plugins.items()
              if plugin.kind == "sampler" and ("plugin", name) not in ours]
    return [*found, *(f"storage policy {name}" for name, policy in observed.policies.items()
                      if policy.is_started and ("policy", name) not in ours)]


def _named(verb: str, name: str, why: str) -> Step:
    return Step(parts.named(verb, name), why)


# ---- producers


def _of_producers(wanted: Wanted, observed: Observed,
                  memory: Memory) -> tuple[list[Step], list[Step], list[Step]]:
    """(stops, additions, starts)."""
    stops: list[Step] = []
    additions: list[Step] = []
    starts: list[Step] = []
    shared = dict(wanted.shared)
    for producer in wanted.producers:
        name = producer.name
        there = observed.producers.get(name)
        runs = name in wanted.runs
        if there is None:
            if producer.add is not None:
                additions.append(Step(producer.add, "it is missing"))
            if runs:
                starts.append(_named("prdcr_start", name, "its place is here"))
            continue
        is_started = there.is_started and there.state != "STANDBY"
        if producer.add is not None and (there.host, there.port, there.transport) != (
                producer.host, producer.port, producer.transport):
            why = "its address is another now"
            if is_started:
                stops.append(_named("prdcr_stop", name, why))
            if name not in memory.kept:         # else it would collect from the old address
                additions += [_named("prdcr_del", name, why), Step(producer.add, why)]
                if runs:
                    starts.append(_named("prdcr_start", name, "its place is here"))
        elif runs and not is_started:
            starts.append(_named("prdcr_start", name, "its place is here"))
        elif runs and name in shared and any(
                one.state in HOLDS and one.instance not in shared[name] for one in there.sets):
            # A set is forgotten with its producer alone.
            stops.append(_named("prdcr_stop", name, "it gives some of its sets away"))
            starts.append(_named("prdcr_start", name, "it has some of its sets here"))
        elif is_started and not runs:
            stops.append(_named("prdcr_stop", name, _SILENT if name in wanted.silent
                                else "another aggregator collects from it" if producer.add
                                else "it is a peer, or has its place elsewhere"))
    for kind, name in sorted(wanted.former):
        if kind == "producer" and name in observed.producers \
                and observed.producers[name].is_started:
            stops.append(_named("prdcr_stop", name, "it is not in the description any more"))
    return stops, additions, starts


def _subscriptions(wanted: Wanted, observed: Observed, memory: Memory) -> Iterator[Step]:
    for each in wanted.subscriptions:
        told = memory.subscribed.get(each.subscribe)
        if told is None or not each.covers <= told:
            yield Step(each.subscribe, "producers have not been told to send it", each.covers,
                       told is None and each.covers <= observed.producers.keys())
    # ldmsd 4.5.3 ends where one producer has streams and message channels and one is taken away.
    kinds = {stream_of(each.subscribe)[0] for each in wanted.subscriptions}
    kinds |= {stream_of(each)[0] for each in wanted.unsubscribed}
    for statement in wanted.unsubscribed:
        if len(kinds) == 1 and statement not in memory.once:
            yield Step(statement, "it is not in the description any more")


# ---- plugins


def _plugins(wanted: Wanted, observed: Observed, memory: Memory) -> Iterator[Step]:
    for plugin in wanted.plugins:
        if plugin.name not in observed.plugins:
            for statement in plugin.statements():
                yield Step(statement, "it is missing")
            continue
        lacks = _lacking(plugin, observed, memory)
        if lacks is None:
            yield from _anew(plugin, "its configuration is another now")
            continue
        if plugin.start is not None and plugin.name not in memory.loaded \
                and not observed.plugins[plugin.name].sets:
            # Its loader may have ended before it was configured.  There is no set to lose.
            for step in _anew(plugin, "it has no set: whether it is configured cannot be asked"):
                yield step._replace(is_question=True)
            continue
        for statement in lacks:
            yield Step(statement, "it is not configured yet")
        if plugin.start is not None:
            yield from _runs(plugin, plugin.start, observed, memory)


def _lacking(plugin: WantedPlugin, observed: Observed,
             memory: Memory) -> Sequence[Statement] | None:
    """
    What of its configuration it has not, in its order; None: it has another one.

    One that was there before us is taken for configured; so is one with sets, where no answer came.
    """
    refused = memory.unaccepted.get(plugin.name, frozenset())
    known = memory.configs.get(plugin.name, ())
    if not known and not refused:
        is_ours = plugin.name in memory.loaded and not observed.plugins[plugin.name].sets
        return plugin.config if is_ours else ()
    if known != tuple(each for each in plugin.config if each not in refused) \
            or not refused <= {*plugin.config}:
        return None
    return [each for each in plugin.config if each in refused]


def _anew(plugin: WantedPlugin, why: str) -> Iterator[Step]:
    """ldmsd takes a configuration only after the plugin was loaded."""
    if plugin.start is not None:
        yield _named("stop", plugin.name, why)
    yield _named("term", plugin.name, why)
    for statement in plugin.statements():
        yield Step(statement, why)


def _runs(plugin: WantedPlugin, start: Statement, observed: Observed,
          memory: Memory) -> Iterator[Step]:
    wanted = (plugin.interval_us, plugin.offset_us)
    told = memory.started.get(plugin.name)
    if told == wanted:
        return
    seen = observed.plugins[plugin.name]
    if told is None and seen.interval_us is not None:
        told = (seen.interval_us, seen.offset_us or 0)
    if told is None:
        hints = {(each.update_hint_us, each.offset_us or 0) for each in observed.sets
                 if each.instance in seen.sets and each.update_hint_us is not None}
        told = next(iter(hints)) if len(hints) == 1 else None
    if told == wanted:
        yield Step(start, "whether it runs is seen by its answer", is_question=True)
        return
    was = "not known" if told is None else f"{told[0]} us"
    why = f"its interval is {was}, {plugin.interval_us} us is wanted" \
        if told is None or told[0] != wanted[0] else "its offset is another now"
    yield _named("stop", plugin.name, why)
    yield Step(start, why)


def _former_plugins(wanted: Wanted, observed: Observed) -> Iterator[Step]:
    for kind, name in sorted(wanted.former):
        if kind == "plugin" and name in observed.plugins:
            for verb in ("stop", "term"):
                if verb == "term" or observed.plugins[name].kind == "sampler":
                    yield _named(verb, name, "it is not in the description any more")


def _advertisers(wanted: Wanted, observed: Observed) -> Iterator[Step]:
    for add, start in wanted.advertisers:
        name = dict(add.attributes)["name"] or ""
        there = observed.producers.get(name)
        if there is None:
            yield Step(add, "it is missing")
        if there is None or not there.is_started:
            yield Step(start, "it is not started")


def _listens(wanted: Wanted, observed: Observed) -> Iterator[Step]:
    for each in wanted.listens:
        there = observed.listens.get(each.name)
        if there is not None and (there.regex, there.ip) != (each.regex, each.ip):
            for verb in ("prdcr_listen_stop", "prdcr_listen_del"):
                yield _named(verb, each.name, "it is for others now")
            there = None
        add, start = each.statements
        if there is None:
            yield Step(add, "it is missing")
        if there is None or not there.is_started:
            yield Step(start, "it is not started")
    for kind, name in sorted(wanted.former):
        if kind == "listen" and name in observed.listens:
            for verb in ("prdcr_listen_stop", "prdcr_listen_del"):
                yield _named(verb, name, "it is not in the description any more")


# ---- updaters, storage policies


def _updaters(wanted: Wanted, observed: Observed) -> Iterator[Step]:
    for kind, name in sorted(wanted.former):
        if kind == "updater" and name in observed.updaters:
            if observed.updaters[name].is_started:
                yield _named("updtr_stop", name, "it is not in the description any more")
            yield _named("updtr_del", name, "it is not in the description any more")
    for updater in wanted.updaters:
        there = observed.updaters.get(updater.name)
        if there is None:
            for statement in updater.statements:
                yield Step(statement, "it is missing")
        else:
            yield from _changed(updater, there, wanted)


def _changed(updater: WantedUpdater, there: UpdaterSeen, wanted: Wanted) -> Iterator[Step]:
    if (there.mode, there.auto_interval) != (updater.mode, updater.auto_interval):
        why = "its mode is another now"
        if there.is_started:
            yield _named("updtr_stop", updater.name, why)
        yield _named("updtr_del", updater.name, why)
        for statement in updater.statements:
            yield Step(statement, why)
        return
    lacks = updater.covers - set(there.producers)
    additions = [each for each in updater.statements if each.verb == "updtr_prdcr_add" and lacks
                 and (_regex(each) in ("", ".*") or matching(_regex(each), lacks))]
    matches = [each for each in updater.statements if each.verb == "updtr_match_add"
               and _match(each) not in there.matches]
    surplus = [each for each in there.matches if each not in updater.matches]
    uncovered = () if updater.has_others else one_of(
        sorted(set(there.producers) - updater.covers))
    is_other = (there.interval_us, there.offset_us) != (updater.interval_us, updater.offset_us)
    if not (additions or matches or surplus or uncovered or is_other):
        if not there.is_started:
            yield Step(updater.statements[-1], "it is not started")
        return
    why = "it lacks producers" if additions else "it is for other sets now" \
        if matches or surplus or uncovered else "its interval is another now"
    if there.is_started:
        yield _named("updtr_stop", updater.name, why)
    for regex, selector in surplus:
        yield Step(Statement("updtr_match_del", (("name", updater.name), ("regex", regex),
                                                 ("match", selector))), why)
    for regex in uncovered:
        yield Step(Statement("updtr_prdcr_del", (("name", updater.name), ("regex", regex))), why)
    for statement in (*additions, *matches):
        yield Step(statement, why)
    yield Step(_restart(updater) if is_other else updater.statements[-1], why)


def _restart(updater: WantedUpdater) -> Statement:
    return Statement("updtr_start", (("name", updater.name),
                                     ("interval", str(updater.interval_us)),
                                     ("offset", str(updater.offset_us))))


def _regex(statement: Statement) -> str:
    return dict(statement.attributes).get("regex") or ""


def _match(statement: Statement) -> tuple[str, str]:
    return _regex(statement), dict(statement.attributes).get("match") or "inst"


def _policies(wanted: Wanted, observed: Observed) -> Iterator[Step]:
    for policy in wanted.policies:
        add, start = policy.statements
        there = observed.policies.get(policy.name)
        if there is None:
            yield Step(add, "it is missing")
            yield Step(start, "it is missing")
        elif any(getattr(there, name) != value for name, value in policy.seen):
            for verb in ("strgp_stop", "strgp_del"):
                yield _named(verb, policy.name, "it is another now")
            yield Step(add, "it is another now")
            yield Step(start, "it is another now")
        elif not there.is_started:
            yield Step(start, "it is not started")
    for kind, name in sorted(wanted.former):
        if kind == "policy" and name in observed.policies:
            for verb in ("strgp_stop", "strgp_del"):
                yield _named(verb, name, "it is not in the description any more")
