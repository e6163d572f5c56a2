"""
job_stats as the kernel of each release prints it: a second account of the form.

    render(Job(b"4711", started_ns, seen_ns, {"open": Value(23, 31, 8117, 61403, 402653184)}),
           "2.16", "MDT") -> bytes of one entry, with all counters that this release has

Written from the print statements of lprocfs_jobstats_seq_show() and lprocfs_stats_header(), and
from the tables of ofd_stats_counter_init() and mdt_stats_counter_init(), v2_5_3 to v2_17_0; it
shares nothing with iostats' parser.
"""
from __future__ import annotations

from collections import namedtuple

RELEASES = ("2.5", "2.7", "2.8", "2.12", "2.14", "2.15.0", "2.15.2", "2.16", "2.17")
KINDS = ("OST", "MDT")

Job = namedtuple("Job", "job_id started_ns seen_ns counters")
Job.__doc__ = """
One job as the kernel holds it.

Attributes:
    job_id: bytes, at most 31, without NUL.
    started_ns, seen_ns: ns of the clock of that release: since boot in 2.15.0, else wall clock.
    counters: name -> Value; an absent one is 0.  Names are those of the release.
"""

Value = namedtuple("Value", "samples min max sum sumsq hist", defaults=(0, 0, 0, 0, ()))
Value.__doc__ = "One counter; hist: ((exponent of 2, count), ...) of what is printed of it."

_OST_2_5 = (("read", "bytes"), ("write", "bytes"), ("setattr", " reqs"), ("punch", " reqs"),
            ("sync", " reqs"))
_OST_2_7 = (("read_bytes", "bytes"), ("write_bytes", "bytes")) + tuple(
    (name, " reqs") for name in "getattr setattr punch sync destroy create statfs get_info "
    "set_info quotactl".split())
_OST_2_14 = (("read_bytes", "bytes"), ("write_bytes", "bytes")) + tuple(
    (name, "usecs") for name in "read write getattr setattr punch sync destroy create statfs "
    "get_info set_info quotactl prealloc".split())
_MDT_NAMES = ("open close mknod link unlink mkdir rmdir rename getattr setattr getxattr setxattr "
              "statfs sync samedir_rename")


def _mdt(names, unit):
    return tuple((name, "bytes" if unit == "usecs" and name.endswith("_bytes") else unit)
                 for name in f"{_MDT_NAMES} {names}".split())


_MDT_2_16 = ("parallel_rename_file parallel_rename_dir crossdir_rename {} read write read_bytes "
             "write_bytes punch migrate fallocate {}")
_COUNTERS = {
    ("2.5", "OST"): _OST_2_5,
    **{(release, "OST"): _OST_2_7 for release in ("2.7", "2.8", "2.12")},
    **{(release, "OST"): _OST_2_14 for release in ("2.14", "2.15.0", "2.15.2", "2.16", "2.17")},
    **{(release, "MDT"): _mdt("crossdir_rename", " reqs") for release in ("2.5", "2.7", "2.8")},
    ("2.12", "MDT"): _mdt("crossdir_rename read_bytes write_bytes punch", " reqs"),
    ("2.14", "MDT"): _mdt("crossdir_rename read_bytes write_bytes punch migrate", "usecs"),
    **{(release, "MDT"): _mdt("crossdir_rename read write read_bytes write_bytes punch migrate "
                              "fallocate", "usecs") for release in ("2.15.0", "2.15.2")},
    ("2.16", "MDT"): _mdt(_MDT_2_16.format("", ""), "usecs"),
    ("2.17", "MDT"): _mdt(_MDT_2_16.format("rename_trylocks", "readpage"), "usecs"),
}


def counters_of(release, kind="OST"):
    """((name, unit as printed), ...) of the counters of this release, in their order."""
    return _COUNTERS[release, kind]


def has_numbers(release, name, unit):
    """True where the line has min, max and sum, and not a count alone."""
    return unit != " reqs" or name in ("read_bytes", "write_bytes")


def text(jobs, release, kind="OST"):
    """A whole file."""
    jobs = list(jobs)
    header = b"" if release == "2.17" and not jobs else b"job_stats:\n"
    return header + b"".join(render(job, release, kind) for job in jobs)


def render(job, release, kind="OST"):
    """One entry, without the file's header."""
    lines = [b"- %-16s %s\n" % (b"job_id:", shown_id(job.job_id, release)),
             _times(job, release).encode()]
    for name, unit in counters_of(release, kind):
        lines.append(_counter(name, unit, job.counters.get(name, Value(0)), release).encode())
    return b"".join(lines)


def shown_id(job_id, release):
    """The id as it is printed: raw up to 2.7, with `?` up to 2.15.0, then quoted and escaped."""
    if release in ("2.5", "2.7"):
        return job_id
    if release in ("2.8", "2.12", "2.14", "2.15.0"):
        return bytes(byte if _is_print(byte) else ord("?") for byte in job_id)
    literal = b".@-_" if release == "2.15.2" else b".@-_:/"
    shown = b"".join(bytes([byte]) if _is_alnum(byte) or byte in literal else b"\\x%02X" % byte
                     for byte in job_id)
    quoted = b"\\" in shown or (release != "2.15.2" and (b":" in shown or shown[:1] == b"@"))
    return b'"%s"' % shown if quoted else shown


def _is_alnum(byte):
    """The kernel's isalnum(), whose table is Latin-1."""
    return bytes([byte]).isalnum() or (byte >= 0xC0 and byte not in (0xD7, 0xF7))


def _is_print(byte):
    """The kernel's isprint()."""
    return 0x20 <= byte < 0x7F or byte >= 0xA0


def _times(job, release):
    if release in ("2.5", "2.7", "2.8", "2.12", "2.14"):
        return "  %-16s %d\n" % ("snapshot_time:", job.seen_ns // 10**9)
    times = [("snapshot_time", job.seen_ns), ("start_time", job.started_ns),
             ("elapsed_time", job.seen_ns - job.started_ns)]
    form = "%-16s: %d.%09d secs.nsecs\n" if release == "2.15.0" else "  %-16s %d.%09d secs.nsecs\n"
    return "".join(form % (name if release == "2.15.0" else name + ":", *divmod(ns, 10**9))
                   for name, ns in times)


def _counter(name, unit, value, release):
    if not value.samples:
        value = Value(0)
    line = "  %s:%s { samples: %11d, unit: %s" % (name, " " * (15 - min(len(name), 15)),
                                                  value.samples, unit)
    if has_numbers(release, name, unit):
        old = release in ("2.5", "2.7", "2.8", "2.12", "2.14")
        line += (", min:%8d, max:%8d, sum:%16d" if old else
                 ", min: %8d, max: %8d, sum: %16d") % value[1:4]
        if unit != " reqs" and release not in ("2.5", "2.7", "2.8", "2.12"):
            line += ", sumsq: %18d" % value.sumsq
    if release in ("2.16", "2.17") and name.endswith("_bytes"):
        line += ", hist: { %s }" % ", ".join("%d%s: %d" % (
            1 << exponent % 10, ("", "K", "M", "G")[exponent // 10], count)
            for exponent, count in value.hist)
    return line + " }\n"
