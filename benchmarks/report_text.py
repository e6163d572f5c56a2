"""
report_text: a report as text, as a user waits for it, against the record decoded and nothing
printed.

    whole process: `iostats report FILE` of 16 nodes and 26 targets, from its start to its end,
        against a bare interpreter
    long: the screen of --long, 120 columns wide, with its findings; for one node and 7 OSTs, and
    for 1,000 nodes and 1,000 OSTs with 12 operations each
    diff: the same record against one with twice the numbers, with all small changes
"""

import json
import os
import subprocess
import sys
import tempfile
import time

from measure import HERE, BenchmarkError, Table, cost_of, environment, median_ratio

sys.path[:0] = [os.path.join(HERE, os.pardir, "tests")]

_AIM_S = 0.05

_OPERATIONS = ("open", "close", "getattr", "setattr", "mkdir", "rmdir", "unlink", "rename",
               "statfs", "seek", "fsync", "create")


def run(quick):
    """[Table]: milliseconds of CPU."""
    rows = []
    for nodes, osts in ((1, 7),) if quick else ((1, 7), (1_000, 1_000)):
        done = subprocess.run([sys.executable, f"{HERE}/report_text.py", str(nodes), str(osts),
                               "3" if quick else "15"],
                              env=environment(), stdout=subprocess.PIPE, check=False)
        if done.returncode:
            raise BenchmarkError(f"report_text.py: exit status {done.returncode}")
        found = json.loads(done.stdout)
        rows.append([f"{nodes:,}", f"{osts:,}", f"{min(found['decoded']) * 1e3:.2f} ms",
                     *(cell for what in ("default", "long", "diff") for cell in (
                         f"{min(found[what]) * 1e3:.1f} ms",
                         f"{median_ratio(found[what], found['decoded']):.0f}"))])
    whole = _whole(3 if quick else 25)
    return [whole, Table("A report as text, beyond the interpreter's imports", [
        "nodes", "OSTs", "record decoded", "report", "ratio", "--long", "ratio", "diff --all",
        "ratio"], rows, ["CPU time of one process, the least of the rounds; ratios are medians.",
                         "Aim of --long: 50 ms."])]


def _whole(rounds):
    """The Table of whole processes."""
    import page_records

    from iostats.report.json_and_csv import format_json
    record, _ = page_records.realistic()
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/record.json"
        with open(path, "w", encoding="utf-8") as file:
            file.write(format_json(record))
        found = {"bare": [], "default": [], "long": []}
        report = [sys.executable, "-m", "iostats", "report", path]
        for _ in range(rounds):
            for name, command in (("bare", [sys.executable, "-c", "pass"]), ("default", report),
                                  ("long", [*report, "--long"])):
                found[name].append(cost_of(command).cpu_s)
    best = min(found["default"])
    return Table("A report as text, whole process", [
        "python -c pass", "report", "ratio", "--long", "ratio", f"{_AIM_S * 1e3:.0f} ms"], [[
            f"{min(found['bare']) * 1e3:.0f} ms", f"{best * 1e3:.0f} ms",
            f"{median_ratio(found['default'], found['bare']):.1f}",
            f"{min(found['long']) * 1e3:.0f} ms",
            f"{median_ratio(found['long'], found['bare']):.1f}",
            "met" if best <= _AIM_S else "missed"]], [
                "CPU seconds, the best of the rounds; ratios are medians.  No process waits."])


def _child(nodes, osts, rounds):
    import msgspec

    from iostats.base.config import Config
    from iostats.report import job_tables
    from iostats.report.diff import changes, diff_text, numbers
    from iostats.report.screen import BLOCKS, GRID, Screen
    from iostats.totals.record import Record
    config, screen = Config(), Screen(120, False, None, BLOCKS)
    texts = [msgspec.json.encode(_record(nodes, osts, times)) for times in (1, 2)]

    def decoded(at=0):
        return Record.of(msgspec.json.decode(texts[at]))

    def shown(long):
        return job_tables.format_report(job_tables.add_labels(decoded(), config), config,
                                        BLOCKS if long else GRID, long, False, screen)

    def compared():
        sides = [numbers.read_numbers(decoded(at), name) for at, name in enumerate("AB")]
        return diff_text.format_comparison(changes.compare_jobs(*sides), "binary", screen, True)

    work = {"decoded": decoded, "default": lambda: shown(False), "long": lambda: shown(True),
            "diff": compared}
    found = {name: [] for name in work}
    assert "Transfers" in work["long"]() and "From A to B" in work["diff"]()
    for _ in range(rounds):
        for name, do in work.items():
            began = time.process_time()
            do()
            found[name].append(time.process_time() - began)
    print(json.dumps(found))


def _record(nodes, osts, times):
    from iostats.totals.delta import Delta
    from iostats.totals.job_totals import Totals
    from iostats.totals.node_report import Report
    totals = Totals("4711", nodes)
    for node in range(nodes):
        values = {"read_bytes": 23 << 20, "read_calls": 23, "write_bytes": (37 << 20) * times,
                  "write_calls": 4100 * times}
        for place, name in enumerate(_OPERATIONS):
            values.update({name: times * (23 + node), f"{name}_us": times * 1000 * (place + 1)})
        deltas = [Delta("llite", "scratch", "", "ff9a", values, False, "")]
        deltas += [Delta("osc", "scratch", f"OST{number:04x}", "ff9a", {
            "write_bytes": 37 << 10, "write_rpcs": 1 + number % 7}, False, "")
            for number in range(node, osts, nodes)]
        totals.add(Report(
            node=f"nid{node:05}", seq=f"{node}", boot_id=f"{node}", user="alice", reason="",
            ended=1_795_226_867.0, elapsed_s=1867.0, clock_ahead_s=0.0, mounts={}, deltas=deltas))
    return totals.record()


if __name__ == "__main__":
    _child(*map(int, sys.argv[1:]))
