"""
Trees of counter files, ours and real ones, and the way from a tree to a record.

Real files of real Lustre systems lie beside the checkout, in ../shared; they are not copied into
the project.  Where the directory is missing the tests that need it are skipped with a reason.
"""

import pathlib

import pytest

from iostats.base import config
from iostats.node import identity, sources
from iostats.totals import delta
from iostats.totals.job_totals import Totals
from iostats.totals.node_report import Report

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
_SHARED = ROOT.parent / "shared"
_NOT_THERE = "no real samples: there is no directory shared/ beside the checkout"


def samples(directory, pattern):
    """
    [pytest.param] of the paths below shared/`directory` that match the glob `pattern`, each with
    its path from there as id; a single skipped one where the directory is not there.
    """
    top = _SHARED / directory
    if not top.is_dir():
        return [pytest.param(None, id="none", marks=pytest.mark.skip(reason=_NOT_THERE))]
    return [pytest.param(path, id=str(path.relative_to(top))) for path in sorted(top.glob(pattern))]


def shared(*parts):
    """The path shared/PARTS; the test is skipped where there is no shared/ beside the checkout."""
    if not _SHARED.is_dir():
        pytest.skip(_NOT_THERE)
    return _SHARED.joinpath(*parts)


def snapshot(tree):
    """The Snapshot of the node whose proc/ and sys/ lie below `tree`."""
    return identity.take_snapshot(str(tree), config.Config(), sources.read_at("start"), "4711",
                                  "node001", "seq")


def report(node="node001", deltas=(), **fields):
    """A node's report as Totals.add takes it; a minute long unless `fields` say more."""
    return Report(**{**dict(
        node=node, seq=f"seq of {node}", boot_id=f"boot of {node}", user="alice", reason="",
        ended=1_795_225_060.0, elapsed_s=60.0, clock_ahead_s=0.0, mounts={},
        deltas=list(deltas)), **fields})


def record_between(before, after):
    """The record of a one-node job between the trees `before` and `after`."""
    totals = Totals("4711", 1)
    totals.add(report(deltas=delta.compute_deltas(snapshot(before), snapshot(after),
                                                  sources.read_at("start"))))
    return totals.record()
