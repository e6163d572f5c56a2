"""
Figure: time lines of jobs and targets at the site's server: bytes kept for a year, and the CPU that
a sweep costs more.

Sizes are of a store's file: rows of jobs as a year may bring them, from minutes to days and on one
to a thousand targets, and of the lines of targets; those of a year of a store to which rows are
added, and in which they are thinned and removed, in each hour of 400 days.  The CPU is that of
harvest_server.py's sweeps, each in a process of its own, with lines and with `series_days = 0`.
"""

import argparse
import binascii
import json
import os
import random
import sys
import tempfile
import time

import harvest_server
from measure import HERE, Table, peak_mib, run_child

_JOBS_A_YEAR, _TARGETS = 1_000_000, 200
_BEGAN = 1_795_225_200
_EVERY_S = 60


def run(quick):
    """The Tables of this figure."""
    jobs, played_days = (10, 40) if quick else (300, 400)
    sizes = child("sizes", jobs, played_days)
    days = sizes["days"]
    rows = [(what, f"{one['full']:,.0f}", f"{one['thinned']:,.0f}")
            for what, one in sizes["of"].items()]
    jobs, targets = _JOBS_A_YEAR * sizes["job"], _TARGETS * sizes["target"]
    sweeps = 3 if quick else 60
    cpu = {name: child("sweeps", sweeps, days) for name, days in (("without", "0"),
                                                                  ("with", "30 365"))}
    off, on = cpu["without"], cpu["with"]
    hourly_ms = on["sweep_ms"] + on["fold_ms"] / sweeps
    return [
        Table("Time lines: bytes that a job's take in the store",
              ("", f"up to {days[0]} days", "later"), [
                  *rows, ("all jobs, mean", f"{sizes['mean']['full']:,.0f}",
                          f"{sizes['mean']['thinned']:,.0f}")],
              [f"A year of {_JOBS_A_YEAR:,} jobs, and of {_TARGETS} targets with who loaded "
               f"them: {(jobs + targets) / 1e9:.1f} GB ({targets / 1e9:.1f} GB of the targets), by "
               f"stores played for {played_days} days, hour by hour."]),
        Table("Time lines: CPU at the site's server, 10,000 entries (100 jobs x 100 targets), all "
              "changed", ("", "a sweep, CPU ms", "to what is without"), [
                  ("without lines", f"{off['sweep_ms']:.1f}", "1"),
                  ("with lines", f"{on['sweep_ms']:.1f}",
                   f"{on['sweep_ms'] / off['sweep_ms']:.2f}"),
                  ("with what is done once an hour", f"{hourly_ms:.1f}",
                   f"{hourly_ms / off['sweep_ms']:.2f}")],
              [f"Once an hour, after {sweeps} sweeps: {on['fold_ms'] / 1000:.2f} s of CPU in "
               f"{on['steps']:,} steps, the longest {on['longest_ms']:.0f} ms; memory "
               f"{on['peak_mib'] - off['peak_mib']:.0f} MiB more.  A question about one job: "
               f"{on['ask_ms']:.0f} ms before that, {on['ask_later_ms']:.0f} ms after."])]


def child(*arguments):
    """One run in a process of its own; its figures."""
    return run_child(__file__, *arguments)


# -- sizes -----------------------------------------------------------------------------------------

# Kind of job -> its share of all jobs, seconds (from, to), targets (from, to).
_KINDS = {"minutes, 1 to 4 targets": (0.5, (60, 1800), (1, 4)),
          "hours, 4 to 100 targets": (0.35, (1800, 8 * 3600), (4, 100)),
          "a day, 8 to 1000 targets": (0.12, (8 * 3600, 86400), (8, 1000)),
          "days, 8 to 1000 targets": (0.03, (86400, 5 * 86400), (8, 1000))}


def _readings(chance, seconds, targets):
    """{target: [LineReading]} of one job: bursts, and a trickle of metadata on one MDT."""
    import numpy

    from iostats.harvest.time_lines.readings import LineReading
    count, found = max(1, seconds // _EVERY_S), {}
    burst, length = chance.choice((1, 5, 10, 30)), chance.choice((1, 1, 2, 3))
    begin = _BEGAN + chance.randrange(3600) // _EVERY_S * _EVERY_S
    for number in range(targets + 1):
        is_mdt, some = number == targets, []
        for sweep in range(count):
            if not is_mdt and sweep % burst >= length:
                continue
            size = chance.randrange(1, 1 << 14)
            amounts = {"open": size % 997, "open_us": size % 997 * 113, "close": size % 991,
                       "close_us": size % 991 * 31, "getattr": size, "getattr_us": size * 41,
                       "operations": 2 * size, "busy_us": size * 97, "timed": 2 * size} if is_mdt \
                else {"write_bytes": size << 20, "writes": size, "writes_us": size * 1301,
                      "read_bytes": size << 12, "reads": size >> 3, "reads_us": size * 301,
                      "operations": size >> 9, "busy_us": size * 1700, "timed": size + (size >> 3)}
            since = begin + sweep * _EVERY_S
            some.append(LineReading(
                float(since), float(since + _EVERY_S), float(_EVERY_S), True, ["4711"],
                {name: numpy.array([value]) for name, value in amounts.items()}, amounts))
        found[f"MDT{0:04x}" if is_mdt else f"OST{number:04x}"] = some
    return found


def _sizes(count, days):
    from iostats.base.config import Config
    from iostats.harvest.time_lines.series_sums import (
        MAX_BINS,
        MAX_TARGETS,
        JobLines,
        TargetReadings,
        add_up_job,
    )
    from iostats.store.line_store import LineStore
    from iostats.store.record_store import Store
    chance, of, mean = random.Random(23), {}, {"full": 0.0, "thinned": 0.0}
    kept = {}
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        for what, (share, seconds, targets) in _KINDS.items():
            bodies = {"full": [], "thinned": []}
            for number in range(max(4, int(count * share))):
                # As many of them as have a line of their own, and two more.
                readings = _readings(chance, chance.randint(*seconds),
                                     min(chance.randint(*targets), MAX_TARGETS + 2))
                lines = add_up_job("4711", {name: TargetReadings(some)
                                           for name, some in readings.items() if some}, _EVERY_S)
                bodies["full"].append((str(4711 + number), "scratch", lines.encode()))
                lines = JobLines.decode(bodies["full"][-1][-1])
                lines.thin(MAX_BINS // 4, MAX_TARGETS // 2)
                bodies["thinned"].append((str(4711 + number), "scratch", lines.encode()))
            of[what], kept[what] = {}, bodies["full"]
            for age, rows in bodies.items():
                path = os.path.join(directory, f"{len(of)}-{age}.sqlite")
                store = Store(path)
                empty = _pages(store)
                LineStore(store).store_jobs(1, rows)
                of[what][age] = (_pages(store) - empty) / len(rows)
                mean[age] += share * of[what][age]
                store.close()
        bodies = [body for what, rows in kept.items()
                  for _, _, body in rows[:max(1, int(100 * _KINDS[what][0]))]]
        jobs, targets = 10 * count, 2
        return {"of": of, "mean": mean, "days": Config().site.series_days,
                "job": _played(f"{directory}/jobs", days, jobs, 0, bodies, ()) / jobs,
                "target": _played(f"{directory}/targets", days, 0, targets, (),
                                  _hours_of_a_day(chance)) / targets}


def _pages(store):
    [(count,)] = store.rows("PRAGMA page_count")
    [(size,)] = store.rows("PRAGMA page_size")
    return count * size


def _hours_of_a_day(chance):
    """Rows of a target's hours, of one day: 20 jobs in each sweep, others every two hours."""
    import numpy

    from iostats.harvest.time_lines.readings import LineReading
    from iostats.harvest.time_lines.series_sums import TargetReadings, add_up_target
    rows = []
    for hour in range(24):
        readings = []
        for sweep in range(60):
            jobs = [str(4711 + hour // 2 + number) for number in range(20)]
            sizes = [chance.randrange(1, 1 << 14) for _ in jobs]
            columns = {"write_bytes": numpy.array(sizes) << 20, "writes": numpy.array(sizes),
                       "read_bytes": numpy.array(sizes) << 12, "reads": numpy.array(sizes) >> 3,
                       "busy_us": numpy.array(sizes) * 1700, "timed": numpy.array(sizes) * 9 // 8,
                       "writes_us": numpy.array(sizes) * 1301}
            since = float(_BEGAN // 86400 * 86400 + hour * 3600 + sweep * _EVERY_S)
            readings.append(LineReading(
                since, since + _EVERY_S, float(_EVERY_S), True, jobs, columns,
                {name: int(column.sum()) for name, column in columns.items()}))
        rows.append(add_up_target(readings, _EVERY_S, TargetReadings(readings)).encode())
    return rows


def _played(path, days, jobs_a_year, targets, bodies, hours):
    """
    Bytes of a store's file after so many days, in each hour of which rows are made, thinned and
    removed as a server does it.
    """
    from iostats.base.config import Config
    from iostats.harvest.time_lines.intake import thin
    from iostats.store.line_store import LineStore
    from iostats.store.record_store import Store
    store, series_days, made = Store(path), Config().site.series_days, 0
    began, empty, chance = _BEGAN // 86400 * 86400.0, _pages(store), random.Random(37)
    lines, now = LineStore(store), began
    lines.now = lambda: now
    store.rows("PRAGMA synchronous = OFF")              # no power fails here
    for hour in range(days * 24):
        now = began + 3600 * hour
        until = jobs_a_year * (hour + 1) // (365 * 24)
        lines.store_jobs(hour + 1, [(str(number), "scratch", chance.choice(bodies))
                                    for number in range(made, until)])
        made = until
        lines.end_fold(hour + 1, [("scratch", f"OST{number:04x}", now, now + 3600, hours[hour % 24])
                                  for number in range(targets)])
        for _ in thin(lines, series_days):
            pass
    found = _pages(store) - empty
    store.close()
    return found


# -- CPU -------------------------------------------------------------------------------------------

def _sweeps(count, days):
    sys.path.insert(0, os.path.dirname(HERE))
    from iostats.answers.selected_run import JobHistoryParams
    from iostats.answers.time_line_queries import TimeLineAnswers
    from iostats.base import config as site
    from iostats.base.cooperative import run_to_end
    from iostats.harvest import intake as harvest_intake
    from iostats.harvest.time_lines.intake import FOLD_EVERY_S
    from iostats.server.rpc_server import Caller
    from iostats.store.record_store import Store
    from iostats.wire import jsonrpc
    from iostats.wire.messages import sweep_decoder

    config = site.load(environ={})
    config.set_value("batch.system", "none", "benchmark")
    config.set_value("site.series_days", days, "benchmark")
    clock, used, found = [float(_BEGAN)], 0.0, {}
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        store = Store(os.path.join(directory, "site.sqlite"))
        harvest = harvest_intake.Harvest(store, config, lambda: clock[0])
        methods = {"packed_sweep": jsonrpc.Method(
            lambda message, who: harvest_intake.answer_to(harvest, message, who),
            sweep_decoder.PackedSweep)}
        for number in range(count + 1):
            clock[0] = _BEGAN + number * 20.0               # of harvest_server's sweeps
            bodies = [(b'{"jsonrpc":"2.0","id":1,"method":"packed_sweep","params":{"protocol":2,'
                       b'"sweep":"%s"}}' % binascii.b2a_base64(message, newline=False), node)
                      for message, node in harvest_server._bodies(100, 100, number, 1)]
            began = time.process_time()
            for body, node in bodies:
                answer = jsonrpc.dispatch(body, methods, Caller(node, 0))
                store.commit()
                if b'"taken":true' not in answer:
                    raise SystemExit(answer.decode())
            harvest.end_sweep()
            while harvest.checkpoints.step() or harvest.lines.step():
                pass
            if number:                                      # the first one is a full sweep
                used += time.process_time() - began
        found["sweep_ms"] = 1000 * used / count

        def ask():
            began = time.process_time()
            answers = TimeLineAnswers(harvest, lambda: False, lambda: clock[0])
            answer = run_to_end(answers.job_history(JobHistoryParams("4711000"), None))
            if days != "0" and len(answer["targets"]) != 8:
                raise SystemExit("expected lines of 8 targets")
            return 1000 * (time.process_time() - began)
        found["ask_ms"] = ask()
        clock[0] += FOLD_EVERY_S
        began, steps, longest = time.process_time(), 0, 0.0
        while True:
            step = time.perf_counter()
            if not harvest.lines.step():
                break
            steps, longest = steps + 1, max(longest, time.perf_counter() - step)
        found.update(fold_ms=1000 * (time.process_time() - began), steps=steps,
                     longest_ms=1000 * longest, ask_later_ms=ask(),
                     peak_mib=peak_mib())
        store.close()
    return found


def main(arguments=None):
    """One run; its figures as JSON."""
    parser = argparse.ArgumentParser(prog="time_lines.py")
    parser.add_argument("what", choices=("sizes", "sweeps"))
    parser.add_argument("count", type=int)
    parser.add_argument("days", nargs="?", default="")
    options = parser.parse_args(arguments)
    sys.path.insert(0, os.path.dirname(HERE))
    print(json.dumps(_sizes(options.count, int(options.days)) if options.what == "sizes" else
                     _sweeps(options.count, options.days)))


if __name__ == "__main__":
    main()
