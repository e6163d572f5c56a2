"""
A random cluster with a Lustre file system: what a call costs there.

Latency and bandwidth, and what shares them: a call takes its own time on the node, the way to a
server and back, and its part of a bandwidth that other threads and nodes use at the same time.
Numbers are those of clusters of 2015 to 2026: 10 Gbit/s to two ports of NDR, disks and flash.
"""

from __future__ import annotations

import math

from planted_jobs.counters import MIB

OSTS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 128, 200)


def between(draw, low, high):
    """A number of which the logarithm is uniform."""
    return math.exp(draw.uniform(math.log(low), math.log(high)))


class Machine:
    """
    A cluster.

    Attributes:
        release: "2.15" or "2.12" of the nodes.
        osts, mdts: how many there are.
        cores: of a node.
        net: bytes/s of a node's network; ost: bytes/s of one OST; copy: bytes/s between a program
            and the page cache, of one thread.
        way_s: to a server and back; call_s: of a call that needs no server, without its bytes.
        mdt_s: time of an MDT's thread for one request; mdt_rate: requests/s of one MDT, at most.
        disk_s: of an OST's disk, to find a place; commit_s: to put data there for sure.
        dirty: bytes that a node may have unsent for one OST.
        rpc: bytes of the largest bulk request.
    """

    def __init__(self, draw, least_osts, is_timed):
        self.random = draw
        self.release = "2.15" if draw.random() < 0.65 or is_timed else "2.12"
        self.osts = draw.choice([count for count in OSTS if count >= least_osts])
        self.mdts = draw.choice((1, 1, 1, 2, 2, 4, 8))
        self.cores = draw.choice((16, 24, 32, 40, 48, 64, 96, 128, 128, 192))
        self.net = draw.choice((1.1e9, 2.8e9, 6e9, 11e9, 11e9, 22e9, 44e9))
        self.ost = between(draw, 0.5e9, 7e9)
        self.copy = between(draw, 0.8e9, 4e9)
        self.way_s = between(draw, 12e-6, 180e-6)
        self.call_s = between(draw, 2e-6, 14e-6)
        self.mdt_s = between(draw, 40e-6, 350e-6)
        self.mdt_rate = between(draw, 12e3, 120e3)
        self.has_flash = draw.random() < 0.4
        self.disk_s = between(draw, 80e-6, 300e-6) if self.has_flash else between(
            draw, 2e-3, 9e-3)
        self.commit_s = between(draw, 300e-6, 1e-3) if self.has_flash else between(
            draw, 3e-3, 20e-3)
        self.dirty = draw.choice((32, 64, 256, 512, 2000)) * MIB
        self.rpc = draw.choice((1, 4, 4, 4, 16)) * MIB
        self.times_calls = self.release == "2.15"

    def pick(self, count):
        """Numbers of `count` different OSTs."""
        return sorted(self.random.sample(range(self.osts), min(count, self.osts)))

    def bandwidth(self, nodes, osts):
        """Bytes/s of each of `nodes` that move data to or from so many OSTs at the same time."""
        return min(self.net * 0.9, self.ost * osts / nodes)

    def slow_osts(self, count, nodes, threads):
        """Make `count` OSTs what limits so many threads of nodes that move data."""
        most = nodes * min(self.net * 0.9, threads * self.copy)
        self.ost = min(self.ost, self.random.uniform(0.2, 0.6) * most / count)

    # Seconds of one call, of a thread of which `threads` are on each of `nodes`.

    def buffered(self, size, nodes, threads, osts):
        """write() through the page cache, of more than the cache holds."""
        return max(self.call_s + size / self.copy,
                   size * threads / self.bandwidth(nodes, osts))

    def cached(self, size):
        """read() of what is in memory, or write() that fits into the cache."""
        return self.call_s + size / self.copy

    def direct(self, size, nodes, threads, osts):
        """read() or write() with O_DIRECT, or reads all over a file."""
        return max(self.way_s + self.disk_s * (0.15 if self.has_flash else 0.5)
                   + size / min(self.net, self.ost),
                   size * threads / self.bandwidth(nodes, osts))

    def committed(self, size, nodes, threads, osts):
        """fsync() of `size` bytes that were written before."""
        return self.way_s + self.commit_s + size * threads / self.bandwidth(nodes, osts)

    def metadata(self, nodes, threads, requests=1.0, mdts=1):
        """A call that makes so many requests to an MDT, one after the other."""
        alone = self.call_s + requests * (self.way_s + self.mdt_s)
        return max(alone, nodes * threads * requests / (self.mdt_rate * mdts))

    def glimpse(self, stripes=1, is_written=False):
        """Asking OSTs for a file's size; `is_written`: by others, at the same time."""
        return self.call_s + self.way_s * (1 + 0.15 * stripes) + (
            between(self.random, 300e-6, 4e-3) if is_written else 30e-6)
