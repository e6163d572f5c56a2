"""
Records for the tests of pages and charts: one worked out by hand, one as of a real job, a wide one
of 1,000 nodes and 1,000 OSTs, and one in which every name is hostile.
"""
from __future__ import annotations

import random

from trees import report as of_node

from iostats.base import config
from iostats.load.time_lines import (
    FileSystemHistory,
    JobHistory,
    JobOnTarget,
    Line,
    TargetHistory,
)
from iostats.report import job_tables, node_sets
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals
from iostats.totals.record import JobEvent
from iostats.wire.messages.report import ReportedPhase, ReportedSeries

MIB, GIB = 1 << 20, 1 << 30
ENDED = 1_795_225_060.0
HOSTILE = ("<script>alert(23)</script>", "\x1b[31mred\x1b[0m", "=cmd|' /C calc'!A0",
           "\u202egnp.exe", "x" * 4096, "\"'><img src=x onerror=alert(37)>", "{{ 41 }}",
           "日本語 &amp;")


def delta(source, file_system, target="", lower_bound=False, why="", **values):
    return Delta(source, file_system, target, "ff9a", values, lower_bound, why)


def batch(**fields):
    return {**dict(system="slurm", cluster="c1", account="astro", partition="normal", name="halo",
                   nodes="nid[00001-00004]", outcome="COMPLETED", exit_status=0, exit_signal=0,
                   array_job="", array_task="", het_job="", het_offset="", raw_job="4711"),
            **fields}


def event(**fields):
    return JobEvent(**{**dict(
        id="0000000000000017", time=ENDED - 1000, last=ENDED - 1000, over=ENDED - 959,
        longest_s=41.0, severity=2, kind="evicted", cause="lock", file_system="scratch",
        target="scratch-OST0003", nodes="nid00002", node_count=1, told_by="nodes",
        is_certain=True, count=1, clients=None, data="may be lost", message="evicted by 23"),
        **fields})


def labelled(totals, **members):
    """The record of Totals, with other members, as reports show it; and its Config."""
    found = config.Config()
    return job_tables.add_labels(totals.record().replaced(**members), found), found


def small():
    """
    Two nodes: 23 + 37 MiB read in 23 + 37 calls, 41 opens in 4.6 s, 41 MiB to OST0000 and 19 MiB to
    OST0001; and node 3 of 3 is missing.
    """
    totals = Totals("4711", 3, fold=node_sets.fold_nodes)
    totals.add(of_node("nid00001", [
        delta("llite", "scratch", read_bytes=23 * MIB, read_calls=23, read=23, read_us=0, open=41,
              open_us=4_600_000),
        delta("osc", "scratch", "OST0000", read_bytes=41 * MIB, read_rpcs=41)],
        ended=ENDED, elapsed_s=100.0))
    totals.add(of_node("nid00002", [
        delta("llite", "scratch", read_bytes=37 * MIB, read_calls=37, read=37, read_us=0),
        delta("osc", "scratch", "OST0001", read_bytes=19 * MIB, read_rpcs=19)],
        ended=ENDED, elapsed_s=100.0))
    return labelled(totals, batch=batch())


def realistic(nodes=16, osts=24):
    """A job with known faults: small writes, one OST with most, one eviction; and what it read."""
    dice, totals = random.Random(23), Totals("4711", nodes, fold=node_sets.fold_nodes)
    elapsed = 1867.0
    for number in range(nodes):
        wrote = round((4.1 if number else 9.7) * GIB * dice.uniform(0.8, 1.2))
        read = round(0.6 * GIB * dice.uniform(0.9, 1.1))
        calls = wrote // 3700
        values = dict(
            read_bytes=read, read_calls=read // MIB, read=read // MIB, read_us=61_000_000,
            write_bytes=wrote, write_calls=calls, write=calls, write_us=calls * 430,
            open=2311 + number, open_us=14_000_000 + number * 230_000, open_us2=10**12,
            close=2311 + number, close_us=2_300_000, getattr=9173, getattr_us=3_700_000,
            create=1100, create_us=6_300_000, unlink=37, unlink_us=410_000, seek=calls,
            seek_us=calls // 9,
            fsync=230, fsync_us=41_000_000, mkdir=1, mkdir_us=1_200, inode_permission=18_000,
            inode_permission_us=29_000)
        deltas = [delta("llite", "scratch", **values), delta(
            "llite", "home", open=23, open_us=41_000, read_bytes=370_000, read_calls=23, read=23,
            read_us=3_700, getattr=41, getattr_us=2_300)]
        small = wrote // 20 // (osts - 1)               # of all OSTs but one: a 20th together
        for ost in range(osts):
            sent = wrote - small * (osts - 1) if ost == 7 else small
            came = read - read // osts * (osts - 1) if ost == 7 else read // osts
            deltas.append(delta("osc", "scratch", f"OST{ost:04x}", write_bytes=sent,
                                write_rpcs=sent // (256 << 10) + 1, read_bytes=came,
                                read_rpcs=came // MIB))
        for mdt, asked in ((0, 7100), (1, 1900)):
            deltas.append(delta("md_stats", "scratch", f"MDT{mdt:04x}", close=asked // 3,
                                create=1100 if not mdt else 0, getattr=asked // 2,
                                intent_lock=asked))
        deltas.append(delta("rpc_stats", "scratch", "", read_rpcs_pages_256=read // MIB,
                            write_rpcs_pages_1=wrote // 70_000, write_rpcs_pages_2=wrote // 190_000,
                            write_rpcs_pages_16=wrote // 700_000,
                            write_rpcs_pages_256=wrote // (3 * MIB),
                            write_rpcs_pages_1024=wrote // (9 * MIB)))
        bins = 124
        series = ReportedSeries(
            ENDED - elapsed, 15.0,
            [round(read / 30 * dice.uniform(0.5, 1.5)) if place < 30 else
             round(dice.uniform(0, read / 4000)) for place in range(bins)],
            [round(wrote / 60 * dice.uniform(0.6, 1.4)) if place % 12 in (5, 6, 7, 8, 9, 10) and
             place > 20 else 0 for place in range(bins)],
            [round(dice.uniform(0.5, 1.5) * calls / bins) for _ in range(bins)])
        totals.add(of_node(
            f"nid{number + 1:05}", deltas, ended=ENDED, elapsed_s=elapsed - number / 10,
            series={"scratch": series}, mounts={("scratch", "ff9a"): "/scratch"},
            phases=[ReportedPhase("read input", 460.0, [delta(
                "llite", "scratch", read_bytes=read, read_calls=read // MIB, open=311)]),
                    ReportedPhase("simulate", 1407.0, [delta(
                        "llite", "scratch", write_bytes=wrote, write_calls=calls, open=2000)])]
            if number == 0 else None))
    return labelled(totals, batch=batch(), events=[event()])


def history():
    """Of realistic(): what storage servers saw of scratch in 30 s each, from 5 minutes before."""
    began, dice = ENDED - 1867 - 300, random.Random(37)
    whole = [round(dice.uniform(3, 9) * GIB) for _ in range(80)]
    mine = [round(dice.uniform(0.5, 2.5) * GIB) if place % 6 else 0 for place in range(62)]
    mine[23:26] = [None] * 3
    for place, amount in enumerate(mine):
        whole[place + 10] = None if amount is None else whole[place + 10] + amount
    busy = [None if amount is None else amount // (1 << 20) * (4100 if 30 < place < 45 else 1300)
            for place, amount in enumerate(whole)]
    timed = [None if amount is None else amount // (1 << 20) for amount in whole]
    return JobHistory(ENDED - 1867, ENDED, ["harvest"], {}, [FileSystemHistory(
        "scratch", Line(began + 300, 30.0, {"write_bytes": mine}),
        Line(began, 30.0, {"write_bytes": whole, "busy_us": busy, "timed": timed}))], [
            TargetHistory("scratch", "OST0007", None, None, [
                JobOnTarget("4733", "bob", Line(began + 300, 30.0, {
                    "read_bytes": [None, 23], "write_bytes": [37 * MIB, 0], "requests": [40, 1]})),
                JobOnTarget("", "", Line(began + 300, 30.0, {"write_bytes": [23]}))])])


def wide(nodes=1000, osts=1000):
    """Each node uses 40 of the OSTs; one node has counters that were cleared."""
    totals = Totals("4711", nodes, fold=node_sets.fold_nodes)
    for number in range(nodes):
        deltas = [delta("llite", "scratch", "", number == 23, "was cleared" * (number == 23),
                        read_bytes=(number * 7919) % 1009 * MIB, read_calls=23 + number,
                        write_bytes=(number * 104_729) % 997 * MIB, write_calls=37, open=41,
                        open_us=41_000, read=23 + number, read_us=230_000, close=41, close_us=23)]
        deltas += [delta("osc", "scratch", f"OST{(number * 37 + place * 23) % osts:04x}",
                         read_bytes=(place + number % 23) * MIB, read_rpcs=1 + place,
                         write_bytes=(place * number % 41) * MIB, write_rpcs=1 + place)
                   for place in range(40)]
        series = ReportedSeries(
            ENDED - 1867, 8.0, [(number * place) % 23 * MIB for place in range(234)],
            [(number + place) % 37 * MIB for place in range(234)], list(range(234)))
        totals.add(of_node(f"nid{number + 1:05}", deltas, ended=ENDED, elapsed_s=1867.0,
                           series={"scratch": series} if number < 50 else None))
    return labelled(totals, batch=batch(nodes=f"nid[00001-{nodes:05}]"), events=[event()])


def hostile():
    """All that others name, named to do harm: job, user, file systems, nodes, operations, ..."""
    script, escape, formula, turned, long_one, picture, template, wide_one = HOSTILE
    totals = Totals(script, 3, fold=lambda nodes: ",".join(nodes))
    for number, node in enumerate((picture, escape)):
        totals.add(of_node(node, [
            delta("llite", long_one, "", True, formula, read_bytes=23 * MIB, read_calls=23, open=41,
                  open_us=230_000, **{template: 37, script: 23}),
            delta("llite", picture, write_bytes=37 * MIB, write_calls=37, open=1),
            delta("osc", long_one, "OST0000", read_bytes=41 * MIB, read_rpcs=41),
            delta("osc", long_one, f"OST{script}", read_bytes=23 * MIB, read_rpcs=1),
            delta("md_stats", long_one, turned, close=23),
            delta("rpc_stats", long_one, "", read_rpcs_pages_256=23)],
            user=turned, ended=ENDED, elapsed_s=100.0 + number,
            mounts={(long_one, "ff9a"): script}))
    return labelled(
        totals, batch=batch(name=long_one, account=turned, partition=picture, cluster=script,
                            outcome=wide_one),
        events=[event(target=script, nodes=picture, message=long_one, file_system=turned)],
        notes=[script, long_one])
