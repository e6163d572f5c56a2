"""
ldms_balance: which aggregator collects what, and what they are told, of a large cluster.

    balance: 100,000 metric sets of many weights on 64 aggregators: at first, after a failure of
    one, after its return, and once more without a change
    fleet: 30,000 samplers of one group of 64 aggregators: one fails, and what the others are told
"""

import random
import time

from measure import BenchmarkError, Table, median_ratio

_LIMIT_S = 2.0                  # for 100,000 sets on 64 aggregators


def run(quick):
    """[Table, Table]: CPU seconds, against sorting the sets by weight."""
    return [_balance(*((10_000, 16) if quick else (100_000, 64)), 2 if quick else 5),
            _fleet(*((2_000, 8) if quick else (30_000, 64)))]


def _balance(sets, aggregators, rounds):
    from iostats_ldms.balance import assign_items, list_moved, weigh_set
    choose = random.Random(23)
    weights = {f"node-{n:06}/set": weigh_set(choose.choice([392, 1648, 13_696]),
                                              choose.choice([1e6, 1e7, 6e7])) for n in range(sets)}
    every = {f"agg-{n}": 1.0 for n in range(aggregators)}
    others = {name: part for name, part in every.items() if name != "agg-7"}
    cost = {}

    def timed(what, work, *arguments):
        began = time.process_time()
        found = work(*arguments)
        cost.setdefault(what, []).append(time.process_time() - began)
        return found

    for _ in range(rounds):
        timed("sort", lambda: sorted(weights, key=lambda item: (-weights[item], item)))
        first = timed("at first", assign_items, weights, every, {})
        without = timed("one failed", assign_items, weights, others, first)
        again = timed("it returned", assign_items, weights, every, without)
        timed("no change", assign_items, weights, every, again)
    counts = {"at first": sets, "one failed": len(list_moved(first, without)),
              "it returned": len(list_moved(without, again)), "no change": 0}
    if sets == 100_000 and max(min(cost[what]) for what in counts) > _LIMIT_S:
        raise BenchmarkError(f"ldms_balance: more than {_LIMIT_S:g} s")
    rows = [[what, f"{min(cost[what]):.3f} s", f"{median_ratio(cost[what], cost['sort']):.1f}",
             f"{moves:,}"] for what, moves in counts.items()]
    return Table(f"Balance of {sets:,} metric sets on {aggregators} aggregators",
                 ["", "CPU", "against a sort", "placed or moved"], rows,
                 [f"Sorting them by weight: {min(cost['sort']):.3f} s."])


def _fleet(samplers, aggregators):
    import os
    import sys
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                    "tests"))
    from dataclasses import replace

    from fleet_desk import described

    from iostats_ldms.control.observed import ObservedProducer, ObservedState, ObservedUpdater
    from iostats_ldms.reconcile.daemon import DOWN
    from iostats_ldms.reconcile.fleet import Fleet
    made = described(samplers, aggregators)
    fleet, group = Fleet(), made.aggregators[0]
    rows = []

    def timed(what, work, count):
        began = time.process_time()
        found = work()
        rows.append([what, f"{time.process_time() - began:.3f} s", f"{count(found):,}"])

    timed("a description", lambda: fleet.describe(made), lambda _: len(made.daemons))
    for name in made.daemons:
        fleet.observe(name, ObservedState(0, "4.5.3"), 0.0)
    timed("places of all", lambda: fleet.place_producers(None), lambda found: samplers)
    stopped = {one.name: ObservedProducer(one.name, "active", one.endpoint.host, one.endpoint.port,
                                      "sock", one.reconnect_us, "STOPPED")
               for one in group.producers}
    updater = ObservedUpdater("updtr_0", 1_000_000, 100_000, "pull", False, "RUNNING",
                              tuple(stopped))
    for name in group.members:
        mine = {one: replace(seen, state="CONNECTED") for one, seen in stopped.items()
                if fleet.placement["aggs"][one] == name}
        fleet.observe(name, ObservedState(1, "4.5.3", producers={**stopped, **mine},
                                   updaters={"updtr_0": updater}), 0.0)
    timed("commands, nothing to do", lambda: [fleet.plan_commands(name) for name in group.members],
          lambda found: sum(map(len, found)))
    fleet.mark_lost("agg-1", DOWN, "killed", 1.0)
    timed("places after a failure", lambda: fleet.place_producers(None),
          lambda found: len(found[0][1]))
    timed("commands to the others", lambda: [fleet.plan_commands(name) for name in group.members],
          lambda found: sum(map(len, found)))
    return Table(f"{samplers:,} samplers, one group of {aggregators} aggregators",
                 ["", "CPU", "of"], rows, ["What the service works out; without sockets."])
