"""
Random histories of a storage server, its log and its files, and of an agent that looks, and is
killed: exactly what happened is told, each once.

The model knows what was done; it shares no code with the sources, folding or joining.  Everything
happens by a clock of its own.
"""
from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from server_files import BOOT, NODE, ServerFiles, complete, recovering

from iostats.base import config as site_config
from iostats.events import gather
from iostats.events.event import merge_copies

BOOTED = 1_795_225_200.0
TARGETS = ("scratch-OST0003", "scratch-MDT0000")
CONFIG = site_config.load(os.devnull, environ={})


class Model:
    """
    A storage server, and what is true of it.

    Attributes:
        evicted: Counter of target -> clients evicted since the first look.
        named: Counter of target -> those that the log has.
        others: Counter of (kind, target) of all else.
        ended: {(kind, target): how many of these are over}.
    """

    def __init__(self, root):
        self.files, self.log = ServerFiles(root, "2.17"), Path(root) / "dev/kmsg"
        self.log.parent.mkdir()
        self.log.touch()
        self.now, self.number = BOOTED + 1000.0, 0
        self.up = dict.fromkeys(TARGETS, 41)            # target -> instance
        self.instance = dict(self.up)
        self.count = dict.fromkeys(TARGETS, 23)
        self.recovers, self.is_healthy = {}, True
        self.evicted, self.named = Counter(), Counter()
        self.others, self.ended, self.clients = Counter(), Counter(), 0
        for name in TARGETS:
            self.files.start(name, instance=41, evictions=23)

    def _line(self, text):
        self.number += 1
        usec = int((self.now - BOOTED) * 1e6)
        with self.log.open("a") as file:
            file.write(f"4,{self.number},{usec},-;{text}\n")

    # what happens; each is given a target

    def evict(self, target, logged=True):
        if target in self.up:
            self.clients += 1
            self.count[target] += 1
            self.evicted[target] += 1
            if logged:
                self.named[target] += 1
                self._line(f"Lustre: {target}: haven't heard from client f15aa50c-8084-47f6-bb2e-"
                           f"fc5ed9687c46 (at 10.0.{self.clients >> 8}.{self.clients & 255}@tcp) "
                           f"in 39 seconds. I think it's dead, and I am evicting it. exp "
                           f"0000000040f6bb5c, cur {int(self.now)} deadline {int(self.now) - 1} "
                           f"last {int(self.now) - 39}")
            self.files.show(target, evictions=self.count[target])

    def evict_unlogged(self, target):
        self.evict(target, logged=False)

    def reconnect(self, target):
        """An MDS comes back from its partner: its old connection is evicted, and is no client."""
        if target in self.up:
            self.count[target] += 1
            self._line(f"Lustre: {target}: Received MDS connection from 10.9.0.4@o2ib, removing "
                       f"former export from 10.9.0.3@o2ib")
            self.files.show(target, evictions=self.count[target])

    def stop(self, target):
        if target in self.up:
            del self.up[target]
            self.files.stop(target)
            self.others["target_down", target] += 1
            self.ended["recovery", target] += target in self.recovers
            self.recovers.pop(target, None)

    def start(self, target):
        if target not in self.up:
            self.instance[target] += 1
            self.up[target], self.count[target] = self.instance[target], 0
            self.recovers[target] = self.now
            self.others["target_up", target] += 1
            self.ended["target_down", target] = self.others["target_down", target]
            self.others["recovery", target] += 1
            self.files.start(target, instance=self.instance[target],
                             recovery=recovering(int(self.now), 53, 23, 41))

    def recover(self, target):
        if target in self.recovers:
            took = int(self.now - self.recovers[target])
            began = int(self.recovers.pop(target))
            self.ended["recovery", target] += 1
            self.files.show(target, recovery=complete(began, took, 41, 41))

    def sicken(self, target):
        if self.is_healthy:
            self.is_healthy = False
            self.others["not_healthy", ""] += 1
            self.files.health("NOT HEALTHY")

    def heal(self, target):
        if not self.is_healthy:
            self.is_healthy = True
            self.others["healthy", ""] += 1
            self.ended["not_healthy", ""] += 1
            self.files.health("healthy")


# What changes a state is seen at the next look; evictions are counted over any pause.
COUNTED = (Model.evict, Model.evict_unlogged, Model.reconnect)
STATES = (Model.stop, Model.start, Model.recover, Model.sicken, Model.heal)
LOOK, KILL, FOUND_AND_KILL = "look", "kill", "found, and killed"


class Agent:
    """What looks at the model; `told`: {id: the Event, as a server knows it}."""

    def __init__(self, root, model):
        self._root, self._model, self.told = root, model, {}
        self._begin()

    def _begin(self):
        self._gathering = gather.Gathering(
            str(self._root), CONFIG, NODE, BOOT, str(Path(self._root) / "state"), ("server",))

    def scan(self, keeps=True):
        more = True
        while more:
            found = self._gathering.scan(self._model.now)
            for one in found.events:
                before = self.told.get(one.id)
                self.told[one.id] = merge_copies(before, one) if before else one
            more = found.more and keeps
            if keeps:
                self._gathering.acknowledge()

    def kill(self):
        self._gathering.close()
        self._begin()


_steps = st.lists(st.one_of(
    st.tuples(st.sampled_from(COUNTED), st.sampled_from(TARGETS), st.floats(0.0, 20.0)),
    st.tuples(st.sampled_from(STATES), st.sampled_from(TARGETS), st.floats(61.0, 400.0)),
    st.tuples(st.sampled_from((LOOK, LOOK, KILL, FOUND_AND_KILL)), st.just(""),
              st.floats(0.1, 12.0))), max_size=40)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(_steps)
def test_exactly_what_happened_is_told(steps):
    with tempfile.TemporaryDirectory() as root:
        _run(root, steps)


def _run(root, steps):
    model = Model(root)
    kept, anchors = gather.time.time, gather._read_anchors
    gather.time.time, gather._read_anchors = lambda: model.now, lambda root: [(0, BOOTED)]
    try:
        agent = Agent(root, model)
        agent.scan()
        for what, target, pause_s in steps:
            model.now += pause_s
            if what == LOOK:
                agent.scan()
            elif what == KILL:
                agent.kill()
            elif what == FOUND_AND_KILL:
                agent.scan(keeps=False)
                agent.kill()
            elif what in COUNTED:
                # Before the count begins anew, it was looked at.
                what(model, target)
            else:
                agent.scan()
                model.now += 61.0
                what(model, target)
                model.now += 1.0
                agent.scan()
        model.now += 30.0
        agent.scan()
        model.now += 30.0
        agent.scan()
    finally:
        gather.time.time, gather._read_anchors = kept, anchors
        shutil.rmtree(Path(root) / "dev")
    events = agent.told.values()
    evicted, named, others, ended = Counter(), Counter(), Counter(), Counter()
    for one in events:
        if one.kind == "evicted":
            evicted[one.target] += one.count
            named[one.target] += one.count if one.cause == "silent" else 0
        else:
            others[one.kind, one.target] += 1
            ended[one.kind, one.target] += one.over is not None
    assert (+model.evicted, +model.named) == (+evicted, +named)
    assert (+model.others, +model.ended) == (+others, +ended)


def test_a_history_by_hand():
    """Each step once, so that the model is seen to see something."""
    one, other = TARGETS
    with tempfile.TemporaryDirectory() as root:
        _run(root, [(Model.evict, one, 1.0), (Model.reconnect, one, 1.0),
                    (Model.evict_unlogged, one, 1.0), (FOUND_AND_KILL, "", 1.0),
                    (Model.evict_unlogged, other, 1.0),
                    (Model.stop, one, 70.0), (Model.start, one, 70.0), (KILL, "", 1.0),
                    (Model.evict, one, 1.0), (Model.recover, one, 70.0), (Model.sicken, "", 70.0),
                    (KILL, "", 1.0), (Model.heal, "", 70.0)])
