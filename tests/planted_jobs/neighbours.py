"""
Jobs of a whole site, slowed by others or by faults, and `iostats why` of them.

Each kind is a world of the queueing model, accepted where what was planted has plainly cost the job
its time (queueing_world.made()), or plainly nothing has.
"""

from __future__ import annotations

import tempfile
import zlib
from collections import namedtuple

import numpy as np
import queueing_world as model

from iostats.report.why.causes import find_causes
from planted_jobs.site import PlantedSite, node_event, server_event

MOST_INTERVALS = 100
NAMED = {"fault", "busy_target", "slow_target", "own_pattern"}

Scenario = namedtuple("Scenario", "world expected targets plant", defaults=(lambda site: None,))
Scenario.__doc__ = """
Attributes:
    expected: kind of the first cause; "" where none is to be named.
    targets: any of which has to be named with it; () for any.
    plant: adds events, and what nodes report, to a PlantedSite.
"""
Outcome = namedtuple("Outcome", "kind seed expected is_right causes about")


def of_model(kind):
    """A kind of the model as it is."""
    def make(draw):
        return Scenario(*kind(draw))
    make.__name__ = kind.__name__
    return make


def stood_still(world, windows):
    """Let the job do nothing in these intervals, and its calls wait."""
    name = next(one for one in world.used() if one.startswith("OST"))
    mask = np.zeros(world.count, bool)
    for begin, end in windows:
        mask |= model.mask_of(world, begin, end)
    world.down[name] = mask
    world.loads = [one._replace(demand=np.where(mask, 0.0, one.demand)) if one.job == "4711"
                   else one for one in world.loads]
    return name, [(model.BEGAN + begin * world.every_s, model.BEGAN + end * world.every_s)
                  for begin, end in windows]


def ost_down(draw):
    """An OST is down and recovers; all clients lose it."""
    world = model.small_world(draw, draw.uniform(0.05, 0.4))
    window = model.window(draw, world.first + 2, world.last - 2, 0.1, 0.6)
    name, [(began, over)] = stood_still(world, [window])

    def plant(site):
        middle = began + draw.uniform(0.3, 0.9) * (over - began)
        site.events += [server_event("down", "target_down", began, middle, name),
                        server_event("recovery", "recovery", middle, over, name)]
        site.of_nodes += [node_event(number + 1, "connection_lost", node, began + 2, over, name)
                          for number, node in enumerate(_nodes(world))]
    return Scenario(world, "fault", [name], plant)


def eviction(draw):
    """A storage server evicts one node of the job; the others wait for it."""
    world = model.small_world(draw, draw.uniform(0.05, 0.4))
    window = model.window(draw, world.first + 2, world.last - 2, 0.15, 0.5)
    name, [(began, over)] = stood_still(world, [window])
    node = draw.choice(_nodes(world))
    cause = str(draw.choice(["silent", "lock"]))

    def plant(site):
        nid = f"10.9.0.{int(node[3:])}@o2ib"
        site.events.append(server_event("evicted", "evicted", began, began, name, cause=cause,
                                        clients=[nid]))
        site.of_nodes += [node_event(1, "connection_lost", node, began, over, name),
                          node_event(2, "evicted", node, over - 1, over, name)]
    return Scenario(world, "fault", [name], plant)


def flap(draw):
    """The nodes' connections to an OST are lost and come back several times."""
    world = model.small_world(draw, draw.uniform(0.05, 0.4))
    at, windows = world.first + 3, []
    for _ in range(int(draw.integers(3, 7))):
        long = int(draw.integers(1, 4))
        windows.append((at, at + long))
        at += long + int(draw.integers(1, 4))
    if at > world.last - 3:
        return Scenario(world, None, [])
    name, times = stood_still(world, windows)

    def plant(site):
        for number, (began, over) in enumerate(times):
            site.of_nodes += [node_event(100 * number + place + 1, "connection_lost", node,
                                         began, over - 1, name)
                              for place, node in enumerate(_nodes(world))]
    return Scenario(world, "fault", [name], plant)


def shared_node(draw):
    """Another job on its node makes many small writes: they are not this job's."""
    world = model.some_world(draw)
    world.nodes = 1
    model.own_work(world, draw.uniform(0.05, 0.3))

    def plant(site):
        site.shared[0] = int(draw.integers(1, 3))
        calls = int(draw.uniform(0.3, 0.9) * (world.last - world.first) * world.every_s / 1e-4)
        site.beside = {"write": calls, "write_calls": calls, "write_bytes": calls * 512,
                       "write_us": calls * 100}
    return Scenario(world, "", [], plant)


def storage_servers_only(draw):
    """No node reports; a neighbour slows it."""
    world, expected, names = model.busy_ost(draw)

    def plant(site):
        site.has_reports = False
    return Scenario(world, expected, names, plant)


def storage_servers_only_alone(draw):
    """The same without a neighbour."""
    world = model.small_world(draw, draw.uniform(0.05, 0.5))

    def plant(site):
        site.has_reports = False
    return Scenario(world, "", [], plant)


def fault_elsewhere(draw):
    """An OST that the job does not use was down, or its own before the job's begin."""
    world = model.small_world(draw, draw.uniform(0.05, 0.5))
    began, ended = world.period
    at = began + draw.uniform(0, 0.7) * (ended - began)
    is_before = draw.random() < 0.5

    def plant(site):
        site.events.append(
            server_event("before", "target_down", began - 400, began - draw.uniform(60, 300),
                         world.used()[-1]) if is_before else
            server_event("elsewhere", "target_down", at, at + 0.2 * (ended - began), "OST00fe"))
    return Scenario(world, "", [], plant)


def _nodes(world):
    return [f"nid{number:05}" for number in range(1, world.nodes + 1)]


# Kind -> how many of 48.
KINDS = {
    of_model(model.busy_ost): 6, of_model(model.busy_mdt): 6, of_model(model.many_neighbours): 2,
    of_model(model.slow_disk): 3, ost_down: 5, eviction: 5, flap: 4, storage_servers_only: 4,
    shared_node: 4, storage_servers_only_alone: 2, of_model(model.healthy): 3,
    of_model(model.own_bursts): 1, of_model(model.busy_but_flat): 1, fault_elsewhere: 2}


def made(kind, seed):
    """A Scenario whose cause has plainly cost time, or that plainly has none."""
    for attempt in range(3000):
        draw = np.random.default_rng([zlib.crc32(kind.__name__.encode()), seed, attempt])
        one = kind(draw)
        world = one.world
        if one.expected is None or world.count > MOST_INTERVALS:
            continue
        world.ways_are_timed = True
        # OSTs of one kind, so that what the job does is spread over them.
        osts = [name for name in world.targets if name.startswith("OST")]
        for name in osts[1:]:
            world.targets[name] = world.targets[osts[0]]._replace(name=name)
        expected, lost = model.accepted(world, one.expected)
        if lost is not None:
            return one._replace(expected=expected), draw
    raise AssertionError(f"no scenario of {kind.__name__} with seed {seed}")


def outcome(kind, seed, config):
    """The Outcome of one scenario."""
    one, draw = made(kind, seed)
    release = str(draw.choice(["2.15.2", "2.16", "2.17"]))
    with tempfile.TemporaryDirectory() as directory:
        site = PlantedSite(directory, one.world, release)
        try:
            one.plant(site)
            answer = site.play()
        finally:
            site.close()
    causes = find_causes(answer.record, answer.history, [], config)
    first = causes[0] if causes else None
    if one.expected:
        is_right = bool(first) and first.kind == one.expected and (
            not one.targets or first.about.get("target") in one.targets)
    else:
        is_right = not {cause.kind for cause in causes} & NAMED
    return Outcome(kind.__name__, seed, one.expected, is_right, causes,
                   f"{release}, {one.world.nodes} nodes, {one.world.count} sweeps of "
                   f"{one.world.every_s:.0f} s")


def scenarios(seed, count):
    """[(kind, seed)] of so many: in 48 each kind as often as KINDS says."""
    every = [(kind, number) for kind, often in KINDS.items() for number in range(often)]
    return [(kind, 10_000 * seed + 100 * (at // len(every)) + number) for at in range(count)
            for kind, number in [every[at % len(every)]]]


def table(every):
    """Lines of the score: by kind, and together."""
    lines = []
    for title, some in (("cause planted", [one for one in every if one.expected]),
                        ("none planted", [one for one in every if not one.expected])):
        lines.append(f"{title}: {sum(one.is_right for one in some)} of {len(some)} right")
        for kind in dict.fromkeys(one.kind for one in some):
            those = [one for one in some if one.kind == kind]
            lines.append(f"  {kind:28} {sum(one.is_right for one in those)} of {len(those)}")
    return lines


def line_of(one):
    found = "; ".join(f"{cause.kind}: {cause.text}" for cause in one.causes) or "nothing"
    return f"{one.kind} {one.seed} ({one.about}): expected {one.expected or 'nothing'}, got {found}"
