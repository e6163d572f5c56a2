"""
Figure: job_stats of one OST with 10,000 jobs: to read all of it, and to sweep when 1 % changed.

The peers are minimal equivalents, written for this figure: what lljobstat does with PyYAML's C
loader, what glljobstat does line by line, and what jobHarvest does on the form before 2.14; and
the lower limit: to read the file, and count where jobs begin.  Each run is a process
of its own, so that its peak memory is its own; they take turns.

    job_stats.py WHAT FILE [FILE]      one run: prints jobs a second of CPU, and its peak memory
"""

import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
_CHUNK = 1 << 16

# What the jobs use of an OST's counters: as in real files, 3 of 15 (12 before 2.14) is usual.
_MIX = (
    (50, ("write_bytes", "write", "punch")),
    (20, ("read_bytes", "read")),
    (25, ("read_bytes", "write_bytes", "read", "write", "setattr", "punch", "sync")),
    (5, None),                                  # all of them
)


# -- the file ----------------------------------------------------------------------------

def write(path, release, jobs, busy="some", changed=0):
    """A file of `jobs` jobs; of every `changed` jobs one has gone on since changed=0."""
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests"))
    from job_stats_text import Job, counters_of, render
    drawn = random.Random(4711)
    names = [name for name, _ in counters_of(release)]
    weights, uses = [weight for weight, _ in _MIX], [use or names for _, use in _MIX]

    def made():
        for at in range(jobs):
            use = names if busy == "all" else drawn.choices(uses, weights)[0]
            seen_ns = 1_795_000_000 * 10**9 + drawn.randrange(10**14)
            job = Job(b"%d" % (4_700_000 + 3 * at), seen_ns - drawn.randrange(1, 10**13), seen_ns,
                      {name: _value(drawn, name) for name in names if name in use})
            if changed and not at % changed:
                job = job._replace(seen_ns=seen_ns + 10**9)
            yield job
    with open(path, "wb") as file:
        file.write(b"job_stats:\n")
        for job in made():
            file.write(render(job, release))
    return path


def _chunks(path):
    with open(path, "rb", buffering=0) as file:
        while True:
            chunk = file.read(_CHUNK)
            if not chunk:
                return
            yield chunk


def _value(drawn, name):
    from job_stats_text import Value
    samples = drawn.randint(1, 20_000)
    if name.endswith("_bytes"):
        total = samples * drawn.randint(4096, 1 << 20)
        first = drawn.randint(10, 20)
        hist = tuple((first + more, drawn.randint(1, 5000))
                     for more in range(drawn.randint(1, 8)))
        return Value(samples, 4096, 1 << drawn.randint(20, 24), total, total**2 % 2**64, hist)
    total = samples * drawn.randint(20, 5000)
    return Value(samples, drawn.randint(5, 50), drawn.randint(5000, 90_000), total,
                 total**2 // samples % 2**64)


# -- what is measured: each reads a file and returns how many jobs it found ---------------

def iostats(path):
    """All of it."""
    from iostats.lustre import job_stats
    return sum(1 for piece in job_stats.split_entries(_chunks(path)) if job_stats.parse(piece))


def sweep(prints, path):
    """What changed since the last sweep."""
    from iostats.lustre import job_stats
    found = 0
    for piece in job_stats.split_entries(_chunks(path)):
        found += 1
        if prints.is_changed(piece):
            job_stats.parse(piece)
    prints.finish()
    return found


def yaml(path):
    """As lljobstat: the whole text to a YAML loader."""
    import yaml
    text = b"".join(_chunks(path)).decode("utf-8")
    return len(yaml.load(text, yaml.CSafeLoader)["job_stats"])


def by_line(path):
    """As glljobstat: line after line, by split and one expression, into a dict of each job."""
    jobs, job = {}, None
    counter = re.compile(r"^\s*(\w+):\s*\{(.*)\}$")
    for line in b"".join(_chunks(path)).decode("utf-8").split("\n"):
        if line.startswith("- job_id:"):
            job = jobs[line.split(":", 1)[1].strip().strip('"')] = {}
            continue
        found = counter.match(line)
        if found:
            fields, _, hist = found[2].partition("hist:")
            values = {}
            for field in fields.split(","):
                key, _, value = field.partition(":")
                value = value.strip()
                if key.strip():
                    values[key.strip()] = int(value) if value.isdigit() else value
            if hist:
                values["hist"] = {key.strip(): int(value) for key, _, value in
                                  (one.partition(":") for one in hist.strip(" {}").split(","))
                                  if value}
            job[found[1]] = values
        elif job is not None and ":" in line:
            key, _, value = line.partition(":")
            job[key.strip()] = value.split()[0]
    return len(jobs)


def newlines(path):
    """The limit: it is read, its jobs are counted by what each begins with, and nothing else."""
    return sum(chunk.count(b"- job_id:") for chunk in _chunks(path))


def by_column(path):
    """As jobHarvest: by words at fixed places, bytes and the sum of all calls; up to 2.12 alone."""
    jobs, job = {}, None
    for line in b"".join(_chunks(path)).decode("ascii").split("\n"):
        words = line.split()
        if not words:
            continue
        if words[0] == "-":
            job = jobs[words[2]] = {"calls": 0}
        elif words[0] in ("read_bytes:", "write_bytes:"):
            job[words[0]] = int(words[-2].rpartition(":")[2])
        elif words[0] == "snapshot_time:":
            job["seen"] = int(words[1])
        elif len(words) > 3:
            job["calls"] += int(words[3][:-1])
    return len(jobs)


# -- the figure --------------------------------------------------------------------------

_RUNS = [                # name, function, release, which counters are in use, what it is
    ("iostats", "iostats", "2.16", "some"),
    ("iostats, 1 % changed", "sweeps", "2.16", "some"),
    ("lljobstat's way (PyYAML, C)", "yaml", "2.16", "some"),
    ("glljobstat's way", "by_line", "2.16", "some"),
    ("reading and counting alone", "newlines", "2.16", "some"),
    ("iostats, all counters in use", "iostats", "2.16", "all"),
    ("iostats", "iostats", "2.12", "some"),
    ("iostats, 1 % changed", "sweeps", "2.12", "some"),
    ("glljobstat's way", "by_line", "2.12", "some"),
    ("jobHarvest's way", "by_column", "2.12", "some"),
]


def run(quick):
    """The Tables of this figure."""
    from measure import Table
    jobs, many, rounds = (500, 3000, 2) if quick else (10_000, 100_000, 3)
    measured = {}
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        files = {key: write(os.path.join(directory, "-".join(map(str, key))), *key)
                 for key in [(release, jobs, busy, changed) for release, busy, changed in
                             (("2.16", "some", 0), ("2.16", "some", 100), ("2.16", "all", 0),
                              ("2.12", "some", 0), ("2.12", "some", 100))]
                 + [("2.16", many, "some", changed) for changed in (0, 100, 1)]}
        sizes = {release: os.path.getsize(files[release, jobs, "some", 0]) / 1e6
                 for release in ("2.16", "2.12")}
        for number in range(rounds):
            for name, what, release, busy in _RUNS:
                if what != "yaml" or number < 2:               # half a minute each
                    measured.setdefault((release, name), []).append(_measured(what, *(
                        files[release, jobs, busy, changed] for changed in
                        ((0, 100) if what == "sweeps" else (0,)))))
        large = [[f"{count:,}", f"{share} %", f"{rate:,.0f}", f"{peak / 2**20:.0f}"]
                 for count, share, (rate, peak) in (
                     (jobs, 1, _measured("sweeps", files["2.16", jobs, "some", 0],
                                         files["2.16", jobs, "some", 100])),
                     (many, 1, _measured("sweeps", files["2.16", many, "some", 0],
                                         files["2.16", many, "some", 100])),
                     (many, 100, _measured("sweeps", files["2.16", many, "some", 0],
                                           files["2.16", many, "some", 1])))]
        size = os.path.getsize(files["2.16", many, "some", 0]) / 1e6
    rows, ours = [], {}
    for (release, name), runs in measured.items():
        rate = statistics.median(rate for rate, _ in runs)
        ours.setdefault(release, rate)
        rows.append([f"{release}: {name}", f"{rate:,.0f}", f"{rate / ours[release]:.3f}",
                     f"{statistics.median(peak for _, peak in runs) / 2**20:.0f}"])
    return [Table(f"job_stats: one OST, {jobs:,} jobs",
                  ["run", "jobs/CPU s", "/ iostats", "MiB"], rows,
                  [f"median of {rounds} processes that took turns; 2.16: with hist, "
                   f"{sizes['2.16']:.1f} MB; 2.12: {sizes['2.12']:.1f} MB"]),
            Table("job_stats: sweeps over one file",
                  ["jobs", "changed", "jobs/CPU s", "MiB"], large,
                  [f"{many:,} jobs are {size:.0f} MB"])]


def _measured(what, *paths):
    """(jobs a second, peak memory in bytes) of a process of its own."""
    from measure import BenchmarkError, environment
    done = subprocess.run([sys.executable, os.path.abspath(__file__), what, *paths],
                          env=environment(), stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise BenchmarkError(f"job_stats.py {what}: exit status {done.returncode}")
    rate, peak = done.stdout.split()
    return float(rate), int(peak)


def _main(what, *paths):
    sys.path.insert(0, os.path.dirname(HERE))
    if what == "sweeps":
        from iostats.storage.fingerprints import Fingerprints
        prints, rates = Fingerprints(), []
        for number in range(8):
            began = time.process_time()
            jobs = sweep(prints, paths[number % 2])
            if number:
                rates.append(jobs / (time.process_time() - began))
        rate = statistics.median(rates)
    else:
        if what == "iostats":
            import iostats.lustre.job_stats  # noqa: F401
        elif what == "yaml":
            import yaml  # noqa: F401
        began = time.process_time()
        jobs = globals()[what](paths[0])
        rate = jobs / (time.process_time() - began)
    # ru_maxrss would be the parent's where that had more when it was forked.
    with open("/proc/self/status", encoding="ascii") as file:
        print(rate, int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) * 1024)


if __name__ == "__main__":
    _main(*sys.argv[1:])
