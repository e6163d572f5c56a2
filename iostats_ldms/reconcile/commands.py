"""
The fewest commands that change a daemon's observed state to the desired state.

A producer that stays is not stopped.  All producers exist, stopped, before an updater starts: ldmsd
adds to an updater those that exist at that moment, and refuses to change a running one (EBUSY).
Restarting an updater loses no set: its producers stay connected.

Measured on ldmsd 4.4.6 and 4.5.3: a producer that was started is not deleted until its daemon ends
(4.5.3, EBUSY); a set's hint stays when its plugin is stopped; only the answer to `start` (EBUSY)
tells whether a plugin of 4.5 runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from iostats_ldms.control.observed import ObservedState, ObservedUpdater
from iostats_ldms.description.values import make_regexes, select_matching
from iostats_ldms.reconcile.daemon import AppliedCommands, PlannedCommand, get_stream
from iostats_ldms.reconcile.desired import DesiredPlugin, DesiredState, DesiredUpdater
from iostats_ldms.statements import parts
from iostats_ldms.statements.dialect import Statement

COLLECTED_STATES = ("LOOKUP", "READY", "UPDATING")         # states of a set that is collected
_UNREACHABLE = "its aggregator does not answer, and others have its sets"


def plan_commands(desired: DesiredState, observed: ObservedState,
                  applied: AppliedCommands) -> list[PlannedCommand]:
    """Plan the commands for a daemon, in order; [] if it is as desired."""
    stops, additions, starts = _plan_producers(desired, observed, applied)
    return [*stops,                             # first: other aggregators wait for them
            *(PlannedCommand(each, "not applied yet",
                             is_probe=_is_probably_applied(each, desired, observed))
              for each in desired.once if each not in applied.once),
            *_plan_plugins(desired, observed, applied),
            *_plan_advertisers(desired, observed),
            *_plan_listeners(desired, observed),
            *additions,
            *_plan_updaters(desired, observed),
            *_plan_policies(desired, observed),
            *_plan_former_plugins(desired, observed),     # after the policies that used them
            *_plan_subscriptions(desired, observed, applied),
            *starts]


def _is_probably_applied(statement: Statement, desired: DesiredState,
                         observed: ObservedState) -> bool:
    """
    True if a statement whose effect no query reports was probably applied: the daemon has one of
    the desired objects.

    An authentication domain exists if a producer added with it does.  An additional listener is
    never assumed: it may be new.
    """
    if statement.verb == "listen":
        return False
    name = dict(statement.attributes).get("name")
    users = [each.name for each in desired.producers if statement.verb == "auth_add"
             and each.add is not None and ("auth", name) in each.add.attributes]
    if users:
        return any(each in observed.producers for each in users)
    return any(each.name in observed.plugins for each in desired.plugins) \
        or any(each.name in observed.producers for each in desired.producers)


def find_impossible(desired: DesiredState, observed: ObservedState,
                    applied: AppliedCommands) -> list[str]:
    """Describe desired changes that no command can make, one line each."""
    return [f"producer {each.name} stays at {there.host}:{there.port} until its aggregator is "
            f"restarted: ldmsd does not delete a producer that was started"
            for each in desired.producers if each.name in applied.kept
            for there in [observed.producers.get(each.name)]
            if there is not None and each.add is not None
            and (there.host, there.port) != (each.host, each.port)]


def find_unmanaged(desired_states: Iterable[DesiredState], observed: ObservedState) -> list[str]:
    """Describe running objects that no description desires, one line each; they are left alone."""
    described: set[tuple[str, str]] = set()
    for desired in desired_states:
        described |= desired.list_names() | desired.former
    listened = {name for listen in observed.listens.values() for name in listen.producers}
    result = [f"producer {name}" for name, producer in observed.producers.items()
              if producer.is_started and producer.kind == "active"
              and ("producer", name) not in described
              and name not in listened]
    result += [f"updater {name}" for name, updater in observed.updaters.items()
               if updater.is_started and ("updater", name) not in described]
    result += [f"plugin {name}" for name, plugin in observed.plugins.items()
               if plugin.kind == "sampler" and ("plugin", name) not in described]
    return [*result, *(f"storage policy {name}" for name, policy in observed.policies.items()
                       if policy.is_started and ("policy", name) not in described)]


def _plan_by_name(verb: str, name: str, why: str) -> PlannedCommand:
    return PlannedCommand(parts.build_named(verb, name), why)


# ---- producers


def _plan_producers(desired: DesiredState, observed: ObservedState,
                    applied: AppliedCommands) -> tuple[list[PlannedCommand], list[PlannedCommand],
                                                       list[PlannedCommand]]:
    """Plan producers: (stops, additions, starts)."""
    stops: list[PlannedCommand] = []
    additions: list[PlannedCommand] = []
    starts: list[PlannedCommand] = []
    shared = dict(desired.shared)
    for producer in desired.producers:
        name = producer.name
        there = observed.producers.get(name)
        runs = name in desired.runs
        if there is None:
            if producer.add is not None:
                additions.append(PlannedCommand(producer.add, "missing"))
            if runs:
                starts.append(_plan_by_name("prdcr_start", name, "placed here"))
            continue
        is_started = there.is_started and there.state != "STANDBY"
        if producer.add is not None and (there.host, there.port, there.transport) != (
                producer.host, producer.port, producer.transport):
            why = "its address changed"
            if is_started:
                stops.append(_plan_by_name("prdcr_stop", name, why))
            if name not in applied.kept:         # otherwise it would keep the old address
                additions += [_plan_by_name("prdcr_del", name, why),
                              PlannedCommand(producer.add, why)]
                if runs:
                    starts.append(_plan_by_name("prdcr_start", name, "placed here"))
        elif runs and not is_started:
            starts.append(_plan_by_name("prdcr_start", name, "placed here"))
        elif runs and name in shared and any(
                item.state in COLLECTED_STATES and item.instance not in shared[name] for item
                in there.sets):
            # ldmsd forgets a set only together with its producer.
            stops.append(_plan_by_name("prdcr_stop", name, "some of its sets move away"))
            starts.append(_plan_by_name("prdcr_start", name, "some of its sets are placed here"))
        elif is_started and not runs:
            stops.append(_plan_by_name("prdcr_stop", name, _UNREACHABLE if name in desired.silent
                                       else "another aggregator collects from it" if producer.add
                                       else "it is a peer, or placed elsewhere"))
    for kind, name in sorted(desired.former):
        if kind == "producer" and name in observed.producers \
                and observed.producers[name].is_started:
            stops.append(_plan_by_name("prdcr_stop", name, "not in the description any more"))
    return stops, additions, starts


def _plan_subscriptions(desired: DesiredState, observed: ObservedState,
                        applied: AppliedCommands) -> Iterator[PlannedCommand]:
    for each in desired.subscriptions:
        current = applied.subscribed.get(each.subscribe)
        if current is None or not each.covers <= current:
            yield PlannedCommand(each.subscribe, "not subscribed at its producers yet", each.covers,
                                 current is None and each.covers <= observed.producers.keys())
    # ldmsd 4.5.3 crashes on an unsubscribe if a producer has both streams and message channels.
    kinds = {get_stream(each.subscribe)[0] for each in desired.subscriptions}
    kinds |= {get_stream(each)[0] for each in desired.unsubscribed}
    for statement in desired.unsubscribed:
        if len(kinds) == 1 and statement not in applied.once:
            yield PlannedCommand(statement, "not in the description any more")


# ---- plugins


def _plan_plugins(desired: DesiredState, observed: ObservedState,
                  applied: AppliedCommands) -> Iterator[PlannedCommand]:
    for plugin in desired.plugins:
        if plugin.name not in observed.plugins:
            for statement in plugin.statements():
                yield PlannedCommand(statement, "missing")
            continue
        lacks = _find_missing_config(plugin, observed, applied)
        if lacks is None:
            yield from _reload_plugin(plugin, "its configuration changed")
            continue
        if plugin.start is not None and plugin.name not in applied.loaded \
                and not observed.plugins[plugin.name].sets:
            # The instance that loaded it may have ended before configuring it.
            for command in _reload_plugin(plugin,
                                          "it has no set, so it may not be configured"):
                yield command._replace(is_probe=True)
            continue
        for statement in lacks:
            yield PlannedCommand(statement, "not configured yet")
        if plugin.start is not None:
            yield from _plan_start(plugin, plugin.start, observed, applied)


def _find_missing_config(plugin: DesiredPlugin, observed: ObservedState,
                         applied: AppliedCommands) -> Sequence[Statement] | None:
    """
    List the config statements a plugin lacks, in order; None if it has a different configuration.

    A plugin that existed before us is assumed to be configured; so is a plugin with sets whose
    answer was lost.
    """
    refused = applied.unaccepted.get(plugin.name, frozenset())
    applied_config = applied.configs.get(plugin.name, ())
    if not applied_config and not refused:
        is_ours = plugin.name in applied.loaded and not observed.plugins[plugin.name].sets
        return plugin.config if is_ours else ()
    if applied_config != tuple(each for each in plugin.config if each not in refused) \
            or not refused <= {*plugin.config}:
        return None
    return [each for each in plugin.config if each in refused]


def _reload_plugin(plugin: DesiredPlugin, why: str) -> Iterator[PlannedCommand]:
    """Load a plugin again; ldmsd accepts a configuration only after loading."""
    if plugin.start is not None:
        yield _plan_by_name("stop", plugin.name, why)
    yield _plan_by_name("term", plugin.name, why)
    for statement in plugin.statements():
        yield PlannedCommand(statement, why)


def _plan_start(plugin: DesiredPlugin, start: Statement, observed: ObservedState,
                applied: AppliedCommands) -> Iterator[PlannedCommand]:
    desired = (plugin.interval_us, plugin.offset_us)
    current = applied.started.get(plugin.name)
    if current == desired:
        return
    running = observed.plugins[plugin.name]
    if current is None and running.interval_us is not None:
        current = (running.interval_us, running.offset_us or 0)
    if current is None:
        hints = {(each.update_hint_us, each.offset_us or 0) for each in observed.sets
                 if each.instance in running.sets and each.update_hint_us is not None}
        current = next(iter(hints)) if len(hints) == 1 else None
    if current == desired:
        yield PlannedCommand(start, "only the answer tells whether it runs", is_probe=True)
        return
    was = "unknown" if current is None else f"{current[0]} us"
    why = f"its interval is {was}, {plugin.interval_us} us expected" \
        if current is None or current[0] != desired[0] else "its offset changed"
    yield _plan_by_name("stop", plugin.name, why)
    yield PlannedCommand(start, why)


def _plan_former_plugins(desired: DesiredState,
                         observed: ObservedState) -> Iterator[PlannedCommand]:
    for kind, name in sorted(desired.former):
        if kind == "plugin" and name in observed.plugins:
            for verb in ("stop", "term"):
                if verb == "term" or observed.plugins[name].kind == "sampler":
                    yield _plan_by_name(verb, name, "not in the description any more")


def _plan_advertisers(desired: DesiredState, observed: ObservedState) -> Iterator[PlannedCommand]:
    for add, start in desired.advertisers:
        name = dict(add.attributes)["name"] or ""
        there = observed.producers.get(name)
        if there is None:
            yield PlannedCommand(add, "missing")
        if there is None or not there.is_started:
            yield PlannedCommand(start, "not started")


def _plan_listeners(desired: DesiredState, observed: ObservedState) -> Iterator[PlannedCommand]:
    for each in desired.listens:
        there = observed.listens.get(each.name)
        if there is not None and (there.regex, there.ip) != (each.regex, each.ip):
            for verb in ("prdcr_listen_stop", "prdcr_listen_del"):
                yield _plan_by_name(verb, each.name, "its filter changed")
            there = None
        add, start = each.statements
        if there is None:
            yield PlannedCommand(add, "missing")
        if there is None or not there.is_started:
            yield PlannedCommand(start, "not started")
    for kind, name in sorted(desired.former):
        if kind == "listen" and name in observed.listens:
            for verb in ("prdcr_listen_stop", "prdcr_listen_del"):
                yield _plan_by_name(verb, name, "not in the description any more")


# ---- updaters, storage policies


def _plan_updaters(desired: DesiredState, observed: ObservedState) -> Iterator[PlannedCommand]:
    for kind, name in sorted(desired.former):
        if kind == "updater" and name in observed.updaters:
            if observed.updaters[name].is_started:
                yield _plan_by_name("updtr_stop", name, "not in the description any more")
            yield _plan_by_name("updtr_del", name, "not in the description any more")
    for updater in desired.updaters:
        there = observed.updaters.get(updater.name)
        if there is None:
            for statement in updater.statements:
                yield PlannedCommand(statement, "missing")
        else:
            yield from _plan_updater_change(updater, there)


def _plan_updater_change(updater: DesiredUpdater,
                         there: ObservedUpdater) -> Iterator[PlannedCommand]:
    if (there.mode, there.auto_interval) != (updater.mode, updater.auto_interval):
        why = "its mode changed"
        if there.is_started:
            yield _plan_by_name("updtr_stop", updater.name, why)
        yield _plan_by_name("updtr_del", updater.name, why)
        for statement in updater.statements:
            yield PlannedCommand(statement, why)
        return
    lacks = updater.covers - set(there.producers)
    additions = [each for each in updater.statements if each.verb == "updtr_prdcr_add" and lacks
                 and (_get_regex(each) in ("", ".*") or select_matching(_get_regex(each), lacks))]
    matches = [each for each in updater.statements if each.verb == "updtr_match_add"
               and _get_match(each) not in there.matches]
    surplus = [each for each in there.matches if each not in updater.matches]
    uncovered = () if updater.allows_others else make_regexes(
        sorted(set(there.producers) - updater.covers))
    is_changed = (there.interval_us, there.offset_us) != (updater.interval_us, updater.offset_us)
    if not (additions or matches or surplus or uncovered or is_changed):
        if not there.is_started:
            yield PlannedCommand(updater.statements[-1], "not started")
        return
    why = "it lacks producers" if additions else "its sets changed" \
        if matches or surplus or uncovered else "its interval changed"
    if there.is_started:
        yield _plan_by_name("updtr_stop", updater.name, why)
    for regex, selector in surplus:
        yield PlannedCommand(Statement("updtr_match_del", (("name", updater.name), ("regex", regex),
                                                           ("match", selector))), why)
    for regex in uncovered:
        yield PlannedCommand(Statement("updtr_prdcr_del", (("name", updater.name),
                                                           ("regex", regex))), why)
    for statement in (*additions, *matches):
        yield PlannedCommand(statement, why)
    yield PlannedCommand(_build_restart(updater) if is_changed else updater.statements[-1], why)


def _build_restart(updater: DesiredUpdater) -> Statement:
    return Statement("updtr_start", (("name", updater.name),
                                     ("interval", str(updater.interval_us)),
                                     ("offset", str(updater.offset_us))))


def _get_regex(statement: Statement) -> str:
    return dict(statement.attributes).get("regex") or ""


def _get_match(statement: Statement) -> tuple[str, str]:
    return _get_regex(statement), dict(statement.attributes).get("match") or "inst"


def _plan_policies(desired: DesiredState, observed: ObservedState) -> Iterator[PlannedCommand]:
    for policy in desired.policies:
        add, start = policy.statements
        there = observed.policies.get(policy.name)
        if there is None:
            yield PlannedCommand(add, "missing")
            yield PlannedCommand(start, "missing")
        elif any(getattr(there, name) != value for name, value in policy.seen):
            for verb in ("strgp_stop", "strgp_del"):
                yield _plan_by_name(verb, policy.name, "it changed")
            yield PlannedCommand(add, "it changed")
            yield PlannedCommand(start, "it changed")
        elif not there.is_started:
            yield PlannedCommand(start, "not started")
    for kind, name in sorted(desired.former):
        if kind == "policy" and name in observed.policies:
            for verb in ("strgp_stop", "strgp_del"):
                yield _plan_by_name(verb, name, "not in the description any more")
