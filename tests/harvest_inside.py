"""
A Harvest in the process of a test, with a store, a clock that the test sets, and messages as agents
send them.
"""

import asyncio
import weakref

from client_messages import ClientAgent, by_kind, decoded
from sweep_blocks import Block, Column, received

from iostats.base import config as site
from iostats.base.cooperative import run_to_end
from iostats.harvest import harvested_job
from iostats.harvest import intake as harvest_intake
from iostats.store.record_store import Store

BOOT = "b" * 32
NS = 1_000_000_000
BEGAN = 1_795_225_200                        # a multiple of 20
_opened = weakref.WeakSet()


def close_all():
    """Close the stores of this test: Python 3.13 warns of what is still open when it is removed."""
    for store in list(_opened):
        store.close()


def opened_store(path):
    """A Store that is closed when the test has ended."""
    store = Store(str(path))
    _opened.add(store)
    return store


class HarvestInside:
    """A Harvest, its clock, and what its agents have sent so far."""

    ahead = 0                           # of the site's clock: that of the storage server, seconds

    def __init__(self, path, **choices):
        self.path, self.now, self.settled = path, float(BEGAN), {}
        self.config = site.load(environ={})
        for name, value in {"batch.system": "none", **choices}.items():
            self.config.set_value(name.replace("_", ".", 1), str(value), "a test")
        self.store = self.harvest = None
        self.seqs, self.client_agents = {}, {}
        self.open()

    def open(self):
        self.store = opened_store(self.path)
        self.harvest = harvest_intake.Harvest(self.store, self.config, lambda: self.now)

    def again(self):
        """The server is killed, and begins again."""
        self.store.close()
        self.open()

    def send(self, node, *blocks, run="1" * 16, full=None, seq=None, **fields):
        """A message of one sweep; the answer."""
        if seq is None:
            seq = self.seqs[node, run] = self.seqs.get((node, run), 0) + 1
        head = {"node": node, "boot_id": BOOT, "clock_ahead_s": 0.0, "run": run,
                   "seq": seq, "full": seq == 1 if full is None else full,
                   "slot": int(self.now), "every": 20, "last": True, **fields}
        answer = self.harvest.receive(received(head, blocks), node)
        self.store.commit()
        return answer

    def clients(self, node, file_system, gains, **how):
        """
        The exports of a storage server in the next sweep: {nid: what it has done since the one
        before}, the amounts of CLIENT_METRICS, or without the last one; the answer.

        A storage server that is new has a sweep in which its clients have done nothing before.
        """
        agent = self.client_agents.get(node)
        if agent is None:
            agent = self.client_agents[node] = ClientAgent(node)
            self.tell(node, agent.message(self.now, by_kind(
                file_system, {nid: [0] * len(amounts) for nid, amounts in gains.items()})))
            self.turn()
            self.now += agent.every
        return self.tell(node, agent.message(self.now, by_kind(file_system, gains), **how))

    def tell(self, node, message):
        """A message of clients, compressed; the answer."""
        answer = self.harvest.receive(decoded(message), node)
        self.store.commit()
        return answer

    def call_nodes(self, names):
        """Let nodes have these names, {NID: node}, as [clients] names has them."""
        path = self.path.with_name("nodes")
        path.write_text("".join(f"{nid} {node}\n" for nid, node in names.items()))
        self.config.set_value("clients.names", str(path), "a test")
        self.again()

    def did(self, since, until, **which):
        """{(file system, NID): ClientTotals} of `harvest.clients.between`."""
        return run_to_end(self.harvest.clients.between(since, until, **which))

    def block(self, target="OST0000", ids=(), started=BEGAN, gone=(), ended=True, head=None,
              **counters):
        """
        What one target shows: `ids`, with the same counters=(samples, sum, ...) for each of them;
        `head`: other members of the head.
        """
        ids = list(ids)
        at = list(range(len(ids)))
        columns = {
            name: one if isinstance(one, Column) else
            Column("bytes", at, [one[0]] * len(ids), [1] * len(ids), [one[1]] * len(ids),
                   [one[1]] * len(ids), [one[1] ** 2 % 2**64] * len(ids))
            if isinstance(one, tuple) else Column("reqs", at, [one] * len(ids))
            for name, one in counters.items()} if ids else {}
        return Block(ids=ids, started=[int(started * NS)] * len(ids),
                     seen=[int(self.now + self.ahead) * NS] * len(ids), counters=columns,
                     **{"file_system": "scratch", "target": target, "entries": len(ids),
                        "read_at": self.now + self.ahead + 0.1, "cleanup_s": 600, "ended": ended,
                        "since_boot_s": self.now + 0.1 - BEGAN + 41_003, "gone": list(gone),
                        **(head or {})})

    def turn(self):
        """One look of the server at what there is to do."""
        async def scan():
            self.harvest.end_sweep()
            await self.harvest.lives.settle(self.harvest.swept_until(), self.settled.update,
                                            self.harvest.drop_jobs)
            while self.harvest.checkpoints.step() or self.harvest.clients.step():
                pass
        asyncio.run(scan())

    def totals(self, job):
        """{file system: (read_bytes, write_bytes, is anything noted)} of what is known."""
        part = self.harvest.lives.find_harvested(job)
        record = harvested_job.as_record(part, ",".join)
        for fs in record["file_systems"]:
            assert fs["lower_bound"] is (bool(fs["notes"]) or not part.final)
        return {fs["name"]: (fs["read_bytes"], fs["write_bytes"], bool(fs["notes"]))
                for fs in record["file_systems"]}


def quiet(desk, seconds):
    """Sweeps in which nothing has changed."""
    for _ in range(0, seconds, 20):
        desk.now += 20
        desk.send("oss1", desk.block())
        desk.turn()
