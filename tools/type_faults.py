#!/usr/bin/env python3
"""
Faults that types find: each is put into the code, and mypy has to refuse it.

    .venv/bin/python tools/type_faults.py     one run of mypy, with the changed files in place

A test holds that the text of each is still in its file (tests/test_typed.py).
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
# (what is wrong, file, the text, what is put in its place)
FAULTS = (
    ("a key of site.cfg that does not exist", "node/delivery.py",
     "config.server.max_message_bytes", "config.server.max_bytes"),
    ("a text of site.cfg as a time", "cli/batch_hooks.py",
     "time.monotonic() + config.node.retry_timeout",
     "time.monotonic() + config.node.reader"),
    ("a target and a client, swapped", "store/client_store.py",
     'until, ALL_TARGETS, ALL_CLIENTS, "a row', 'until, ALL_CLIENTS, ALL_TARGETS, "a row'),
    ("the NIDs of a NID", "harvest/clients/node_hours.py",
     "self._find_node(nid)", "self._find_node(self._find_node(nid))"),
    ("seconds where nanoseconds of each entry are compared", "harvest/resets/comparison.py",
     "were_created_too_early(made_ns, seen_ns, readings.shortest_ns(seen_ns))",
     "were_created_too_early(made_ns, seen_ns, readings.shortest_s(0.0))"),
    ("bytes and text together", "harvest/resets/codec.py",
     'b"%08x\\n" % zlib.crc32(body)', '"%08x\\n" % zlib.crc32(body)'),
    ("a member that a JSON answer does not have", "load/table.py",
     'answer["left_off"] + len', 'answer["left"] + len'),
    ("a misspelt member of an agent's status", "sinks/prometheus/event_page.py",
     'int(status["health"] == "healthy")', 'int(status["healthy"] == "healthy")'),
    ("a misspelt field of a record", "load/ranking.py",
     "and reading.age_s is not None", "and reading.age is not None"),
    ("an option that the command does not have", "cli/list_options.py",
     "not options.noheader)", "not options.no_header)"),
    ("a time that may be unknown, compared", "answers/load_queries.py",
     "if created is not None:", "if True:"),
    ("the id that users write as the batch system's own", "jobs/open_jobs.py",
     "Key(facts.cluster, facts.raw_job, facts.restarts)",
     "Key(facts.cluster, facts.job, facts.restarts)"),
    ("a misspelt member of a node's report", "node/rates.py",
     'report["seq"]', 'report["sequence"]'),
    ("a misspelt function of a source of counters", "node/rates.py",
     "module.count_operations(values)", "module.operations(values)"),
    ("sums that a counter may lack", "answers/load_queries.py",
     "column is None or column.sums is None", "column is None"),
)


def put_in(directory):
    """Write the files with their faults; {file: (its copy, [(line, what is wrong)])}."""
    changed = {}
    for what, name, text, instead in FAULTS:
        path = HOME / "iostats" / name
        copy, lines = changed.setdefault(path, (directory / name.replace("/", "."), []))
        content = copy.read_text() if copy.exists() else path.read_text(encoding="utf-8")
        assert content.count(text) == 1, f"{name}: expected {text!r} once"
        lines.append((content[:content.index(text)].count("\n") + 1, what))
        copy.write_text(content.replace(text, instead), encoding="utf-8")
    return changed


def main():
    """Print what mypy says of each fault; 1 if it finds one of them right."""
    with tempfile.TemporaryDirectory() as name:
        changed = put_in(Path(name))
        shadows = [word for path, (copy, _) in changed.items()
                   for word in ("--shadow-file", str(path), str(copy))]
        printed = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", f"{name}/cache",
                                  *shadows], cwd=HOME, text=True, capture_output=True,
                                 check=False).stdout
    found = {}
    for path, line, text in re.findall(r"(?m)^(.+?):(\d+): error: (.*)$", printed):
        found.setdefault((HOME / path, int(line)), text)
    missed = 0
    for path, (_, lines) in changed.items():
        for line, what in lines:
            near = [found[path, at] for at in range(line, line + 4) if (path, at) in found]
            missed += not near
            print(f"{what}: {near[0] if near else 'NOT FOUND by mypy'}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
