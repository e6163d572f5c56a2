"""
Figure: job_stats of one OST with 10,000 jobs: to read all of it, and to sweep when 1 % changed.

The file is in memory, in chunks of 4 KiB as a kernel gives them.  The peers are minimal equivalents,
written for this figure: what lljobstat does with PyYAML's C loader, what glljobstat does line by
line, and what jobHarvest does on the form before 2.14.  Each run is a process of its own, so that
its peak memory is its own; they take turns.

    job_stats.py WHAT RELEASE JOBS all|some      one run: prints jobs a second
"""

import os
import random
import re
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
_CHUNK = 4096

# What the jobs use of an OST's counters: as in real files, 3 of 15 (12 before 2.14) is usual.
_MIX = (
    (50, ("write_bytes", "write", "punch")),
    (20, ("read_bytes", "read")),
    (25, ("read_bytes", "write_bytes", "read", "write", "setattr", "punch", "sync")),
    (5, None),                                  # all of them
)


# -- the file ----------------------------------------------------------------------------

def chunks_of(release, jobs, busy="some", changed=0):
    """The file in chunks; `changed` jobs of it (one in so many) have gone on since changed=0."""
    data = _text(release, jobs, busy)
    if changed:
        parts = data.split(b"\n- job_id:")
        for at in range(1, len(parts), changed):
            # Another time of the last request: the last digit of its seconds.
            parts[at] = re.sub(rb"(snapshot_time:   \d{9})\d", rb"\g<1>x", parts[at], count=1)
            parts[at] = parts[at].replace(b"x", b"7", 1)
        data = b"\n- job_id:".join(parts)
    return [data[at:at + _CHUNK] for at in range(0, len(data), _CHUNK)]


def _text(release, jobs, busy):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests"))
    from job_stats_text import Job, counters_of, text
    drawn = random.Random(4711)
    names = [name for name, _ in counters_of(release)]
    weights, uses = [weight for weight, _ in _MIX], [use or names for _, use in _MIX]

    def job(at):
        use = names if busy == "all" else drawn.choices(uses, weights)[0]
        seen_ns = 1_795_000_000 * 10**9 + drawn.randrange(10**14) // 10**10 * 10**10
        return Job(b"%d" % (4_700_000 + 3 * at), seen_ns - drawn.randrange(1, 10**13), seen_ns,
                   {name: _value(drawn, name) for name in names if name in use})
    return text(map(job, range(jobs)), release)


def _value(drawn, name):
    from job_stats_text import Value
    samples = drawn.randint(1, 20_000)
    if name.endswith("_bytes"):
        total = samples * drawn.randint(4096, 1 << 20)
        first = drawn.randint(10, 20)
        hist = tuple((first + more, drawn.randint(1, 5000))
                     for more in range(drawn.randint(1, 8)))
        return Value(samples, 4096, 1 << drawn.randint(12, 24), total, total**2 % 2**64, hist)
    total = samples * drawn.randint(20, 5000)
    return Value(samples, drawn.randint(5, 50), drawn.randint(5000, 90_000), total,
                 total**2 // samples % 2**64)


# -- what is measured: functions of chunks, that return how many jobs they read -----------

def iostats(chunks):
    """All of it."""
    from iostats import job_stats
    return sum(1 for piece in job_stats.pieces(chunks) if job_stats.parse(piece))


def sweeps(before, after, rounds):
    """Seconds of each of `rounds` sweeps, in each of which the same jobs have changed."""
    from iostats import job_stats
    prints, taken = job_stats.Fingerprints(), []
    for number in range(rounds + 1):
        began = time.perf_counter()
        for piece in job_stats.pieces(after if number % 2 else before):
            if prints.changed(piece):
                job_stats.parse(piece)
        prints.finish()
        if number:
            taken.append(time.perf_counter() - began)
    return taken


def yaml(chunks):
    """As lljobstat: the whole text to a YAML loader."""
    import yaml
    text = b"".join(chunks).decode("utf-8")
    if "max:16777216" in text:                  # it would be a key; lljobstat repairs it so
        text = re.sub(r"(min|max|sum):(\d)", r"\1: \2", text)
    return len(yaml.load(text, yaml.CSafeLoader)["job_stats"])


def by_line(chunks):
    """As glljobstat: line after line, by split and one expression, into a dict of each job."""
    jobs, job = {}, None
    counter = re.compile(r"^\s*(\w+):\s*\{(.*)\}$")
    for line in b"".join(chunks).decode("utf-8").split("\n"):
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


def by_column(chunks):
    """As jobHarvest: by words at fixed places, bytes and the sum of all calls; up to 2.12 alone."""
    jobs, job = {}, None
    for line in b"".join(chunks).decode("ascii").split("\n"):
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
    ("iostats, all counters in use", "iostats", "2.16", "all"),
    ("iostats", "iostats", "2.12", "some"),
    ("iostats, 1 % changed", "sweeps", "2.12", "some"),
    ("glljobstat's way", "by_line", "2.12", "some"),
    ("jobHarvest's way", "by_column", "2.12", "some"),
]


def run(quick):
    """The Tables of this figure."""
    from measure import Table
    jobs, rounds = (500, 2) if quick else (10_000, 5)
    told = {}
    for number in range(rounds):
        for name, what, release, busy in _RUNS:
            if what != "yaml" or number < 2:    # half a minute each
                told.setdefault((release, name), []).append(_told(what, release, jobs, busy))
    rows, ours = [], {}
    for (release, name), runs in told.items():
        rate = statistics.median(rate for rate, _ in runs)
        ours.setdefault(release, rate)
        rows.append([f"{release}: {name}", f"{rate:,.0f}", f"{rate / ours[release]:.3f}",
                     f"{statistics.median(peak for _, peak in runs) / 2**20:.0f}"])
    sizes = {release: sum(map(len, chunks_of(release, jobs))) for release in ("2.16", "2.12")}
    tables = [Table(f"job_stats: one OST, {jobs:,} jobs", ["run", "jobs/s", "/ iostats", "MiB"],
                    rows,
                    [f"median of {rounds} processes that took turns; 2.16: with hist, "
                     f"{sizes['2.16'] / 1e6:.1f} MB; 2.12: {sizes['2.12'] / 1e6:.1f} MB"])]
    large = [_told("stream", "2.16", many, "some") for many in
             ((1000, 3000) if quick else (10_000, 100_000))]
    tables.append(Table("job_stats: the memory of an agent that sweeps one file twice",
                        ["jobs", "jobs/s", "MiB"],
                        [[f"{many:,}", f"{rate:,.0f}", f"{peak / 2**20:.0f}"] for many, (rate, peak)
                         in zip((1000, 3000) if quick else (10_000, 100_000), large)],
                        ["read from a file; all entries change between the two sweeps"]))
    return tables


def _told(what, release, jobs, busy):
    """(jobs a second, peak memory in bytes) of a process of its own."""
    from measure import BenchmarkError, environment
    done = subprocess.run([sys.executable, os.path.abspath(__file__), what, release, str(jobs),
                           busy], env=environment(), stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise BenchmarkError(f"job_stats.py {what} {release}: exit status {done.returncode}")
    rate, peak = done.stdout.split()
    return float(rate), int(peak)


def _stream(jobs):
    """Two sweeps over a file that is read 64 KiB at a time: jobs a second of the second one."""
    import tempfile

    from iostats import job_stats
    with tempfile.TemporaryFile() as file:
        # Written by a child: this process is not to have had the text in its memory.
        subprocess.run([sys.executable, os.path.abspath(__file__), "write", "2.16", str(jobs),
                        "some"], stdout=file, check=True)

        def chunks(number):
            file.seek(0)
            while True:
                chunk = os.read(file.fileno(), 1 << 16)
                if not chunk:
                    return
                yield chunk.replace(b"secs.nsecs\n  start", b"secs.nsecs\n" + b" " * (2 + number)
                                    + b"start")
        prints = job_stats.Fingerprints()
        for number in range(2):
            began, changed = time.perf_counter(), 0
            for piece in job_stats.pieces(chunks(number)):
                if prints.changed(piece):
                    job_stats.parse(piece)
                    changed += 1
            assert prints.finish() == [] and changed >= 0.98 * jobs
    return jobs / (time.perf_counter() - began)


def _main(what, release, jobs, busy):
    jobs = int(jobs)
    if what == "write":
        for first in range(0, jobs, 10_000):
            data = _text(release, min(jobs, 10_000), busy)
            sys.stdout.buffer.write(data.replace(b"- job_id:          47", b"- job_id:          "
                                                 b"%d" % (47 + first // 10_000)))
        return
    if what == "stream":
        rate = _stream(jobs)
    else:
        chunks = chunks_of(release, jobs, busy)
        if what == "sweeps":
            after, same = chunks_of(release, jobs, busy, 100), {}
            # One object for what is the same, so that both fit into the processor's cache alike.
            before = [same.setdefault(chunk, chunk) for chunk in chunks]
            after = [same.setdefault(chunk, chunk) for chunk in after]
            rate = jobs / statistics.median(sweeps(before, after, 9))
        else:
            began = time.perf_counter()
            assert jobs == globals()[what](chunks)
            rate = jobs / (time.perf_counter() - began)
    # Of this process alone: not what its parent had when it was forked.
    with open("/proc/self/status", encoding="ascii") as file:
        peak = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) * 1024
    print(rate, max(peak, 0) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    _main(*sys.argv[1:])
