"""
Lustre `exports/NID/stats` files of OSTs and MDTs: what each client has done to one target.

    obdfilter/FS-OST0000/exports/10.77.0.11@tcp/stats
    mdt/FS-MDT0000/exports/10.77.0.11@tcp/stats             the form of stats.py

    snapshot_time                       1795332839.005385497 secs.nsecs
    start_time                          1795332706.724097298 secs.nsecs
    elapsed_time                        132.281288199 secs.nsecs
    write_bytes                         4 samples [bytes] 120000 2097152 4434304 8824893022208
    write                               4 samples [usecs] 21788 263542 546387 112349896957

All mounts of a client share one file, as do all clients behind one NID.  It stays, and counts on,
when the client reconnects or is evicted; `exports/clear` removes it (where no mount is connected)
or resets it, and so do a write to it and a restart of its target.

Up to 2.11 an OST also counts calls inside of the server here (obd_ping, obd_preprw, obd_commitrw,
obd_get_info ...), behind the requests and some of them under the name of a request: the first line
of a name is that of the requests.  From 2.12 on it counts requests alone (LU-11052).  In 2.5, where
requests are counted by these calls, `sync` has those of lock cancels as well, and there is no
`statfs`.

Source: ofd_export_stats_init(), lustre/ofd/ofd_obd.c; mdt_export_stats_init(), lustre/mdt/mdt_fs.c;
lprocfs_exp_setup(), lustre/obdclass/lprocfs_status_server.c; EXP_COUNTER_INCREMENT(),
lustre/include/obd_class.h up to 2.11; 2.5 to 2.17.
"""

from __future__ import annotations

import re
from operator import itemgetter

from iostats.base.ids import Nid
from iostats.base.named_tuple import NamedTuple
from iostats.lustre import stats
from iostats.lustre.metrics import BYTES_UNIT, TIME_UNITS, is_operation
from iostats.lustre.stats import Counter, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    _Layout = tuple[Callable[[Sequence[bytes]], Iterable[bytes]], list[tuple[int, int]]]


class ClientAmounts(NamedTuple):
    """
    The I/O of one client at one target since the file began.

    Attributes:
        read_bytes, write_bytes: bytes that went over the network.
        reads, writes: requests (RPCs) that moved them.
        operations: all other requests, each once; pings and disconnects are none.
    Each is None if unknown: a line of it cannot be understood.
    """

    read_bytes: int | None
    write_bytes: int | None
    reads: int | None
    writes: int | None
    operations: int | None


class ClientFile(NamedTuple):
    """One client's file, parsed just enough to be compared with an earlier reading."""

    start_ns: int   # when the file began, ns of the wall clock; 0 where it does not show that
    amounts: ClientAmounts  # ClientAmounts since then
    # {counter: (samples,), or (samples, min, max, sum) of bytes}, where start_ns is 0: they show
    # that the file was reset; None where a line of it cannot be understood
    counts: dict[str, tuple[int, ...]] | None
    why: str        # what cannot be understood, the first of it; ""


_LONGEST_NID = 64                   # LNET_NIDSTR_SIZE; 32 before IPv6
_NID = re.compile(r"[0-9A-Za-z.:]+@[a-z][a-z0-9]*")
# Lines and header as nearly all releases print them; stats.parse reads all others.
_LINE = re.compile(rb"^(\w{1,100}) +(\d{1,18}) samples \[(\w{1,20})\]"
                   rb"(?: (\d{1,18}) (\d{1,18}) (\d{1,18})(?: (\d{1,20}))?)?$", re.M)
_HEADER = re.compile(rb"snapshot_time +(\d{10})\.(\d{9}) secs\.nsecs\n"
                     rb"(?:start_time +(\d{10})\.(\d{9}) secs\.nsecs\n"
                     rb"elapsed_time +-?\d{1,10}\.\d{9} secs\.nsecs\n)?")
_NAME = re.compile(r"\s*(\S.*?)\s+\d+ samples \[")
# What `parse_client_file` needs of lines and header; parse() reads all other files.
_COUNTS = re.compile(rb"^(\w{1,100}) +(\d{1,18}) samples \[(?:"
                     rb"\w{1,20}\] (\d{1,18}) (\d{1,18}) (\d{1,18})(?: \d{1,20})?|"
                     rb"(?!bytes\]|usecs?\])\w{1,20}\])$", re.M)
_TIMES = re.compile(rb"snapshot_time +\d{1,10}\.\d{1,9} secs\.[un]secs\n"
                    rb"(?:start_time +(\d{1,10})\.(\d{9}) secs\.nsecs\n"
                    rb"elapsed_time +-?\d{1,10}\.\d{9} secs\.nsecs\n)?")
_READ, _WRITTEN, _OPERATION, _OTHER = range(4)
_kinds: dict[bytes, int] = {}
# Names of lines -> (the samples of operations of all samples, [(column of ClientAmounts, place)]).
_layouts: dict[tuple[bytes, ...], _Layout] = {}
_HEADERS, _SAMPLES = [b"snapshot_time", b"start_time", b"elapsed_time"], [b"samples"] * 100
_LARGEST = 2**63 - 1
_HAVE_SUMS = (BYTES_UNIT, *TIME_UNITS)
_names: dict[tuple[bytes, bytes], tuple[str, str]] = {}        # (name, unit), as text
_MOST_NAMES = 2000                  # there are some 50 in a release


def parse_nid(directory: str) -> Nid | None:
    """
    Return the client of a directory in `exports`; None for other directories.

    >>> [parse_nid(name) for name in ("10.77.0.11@tcp", "fd00:172:16:11::5@tcp", "clear")]
    ['10.77.0.11@tcp', 'fd00:172:16:11::5@tcp', None]
    """
    return Nid(directory) if (len(directory) <= _LONGEST_NID
                              and _NID.fullmatch(directory)) else None


def is_server_itself(nid: Nid) -> bool:
    """True for 0@lo: clients on the storage server itself, and the MDSs' own connections."""
    return nid == "0@lo"


def find_elapsed_time(data: bytes) -> int:
    """Find the line with elapsed_time, the third one; 0 if there is none."""
    at = data.find(b"\n", data.find(b"\n") + 1) + 1
    return at if data.startswith(b"elapsed_time", at) else 0


def strip_time(data: bytes) -> bytes:
    """
    Return the part of a file that is the same while its client is idle: all but the time of
    reading.

    >>> strip_time(b"snapshot_time 7.5 secs.usecs\\nopen 3 samples [reqs]\\n")
    b'open 3 samples [reqs]\\n'
    """
    if not data.startswith(b"snapshot_time"):
        return data
    rest = data[data.find(b"\n") + 1 or len(data):]
    if rest.startswith(b"start_time"):
        start, _, after = rest.partition(b"\n")
        if after.startswith(b"elapsed_time"):
            return start + b"\n" + after[after.find(b"\n") + 1 or len(after):]
    return rest


def parse(data: bytes, origin: str = "stats") -> Reading:
    """
    Parse the bytes of one file into a Reading; its `bad` lists the errors.

    The unit of read_bytes and write_bytes is bytes; MDTs of 2.11 and 2.12 print "reqs" for all.
    """
    return _as_usual(data) or _parse_line_by_line(data, origin)


def _as_usual(data: bytes) -> Reading | None:
    """The Reading of a file whose every line is of the usual form, in a fifth of the time; None."""
    header = _HEADER.match(data)
    if header is None or not data.endswith(b"\n"):
        return None
    counters: dict[str, Counter] = {}
    lines: list[tuple[bytes, ...]] = _LINE.findall(data, header.end())
    for name, samples, unit, low, high, total, squares in lines:
        key, measured = _names.get((name, unit)) or _as_text(name, unit)
        if not low:
            if measured in _HAVE_SUMS:
                return None
            counters[key] = Counter(int(samples), measured)
            continue
        calls, smallest, largest, amount = int(samples), int(low), int(high), int(total)
        if amount > calls * largest or largest < smallest:
            return None
        counters[key] = Counter(calls, measured, smallest, largest, amount,
                                int(squares) if squares else None)
    if len(counters) != data.count(b"\n", header.end()):        # a name twice, or another form
        return None
    seconds, ns, start_s, start_ns = header.groups()
    return Reading(counters, int(seconds + ns), int(start_s + start_ns) if start_s else None)


def _parse_line_by_line(data: bytes, origin: str) -> Reading:
    lines, names = [], set()
    for line in data.decode("utf-8", "replace").split("\n"):
        match = _NAME.match(line)
        if match and match[1] in names:
            line = ""                               # in its place: errors name the line
        elif match:
            names.add(match[1])
        lines.append(line)
    reading = stats.parse("\n".join(lines), origin)
    return reading._replace(counters={
        name: counter._replace(unit=_choose_unit(name, counter.unit))
        for name, counter in reading.counters.items()})


def _as_text(name: bytes, unit: bytes) -> tuple[str, str]:
    text = name.decode("ascii")
    pair = text, _choose_unit(text, unit.decode("ascii"))
    if len(_names) < _MOST_NAMES:
        _names[name, unit] = pair
    return pair


def _choose_unit(name: str, printed: str) -> str:
    return BYTES_UNIT if name in ("read_bytes", "write_bytes") else printed


def parse_client_file(data: bytes, origin: str = "stats") -> ClientFile:
    """
    Parse one client's file: the values of parse() and sum_amounts(), for less CPU time.

    >>> data = b"snapshot_time 7.5 secs.usecs\\nread_bytes 23 samples [bytes] 2 9 94\\n"
    >>> parse_client_file(data).counts
    {'read_bytes': (23, 2, 9, 94)}
    """
    usual = parse_usual_amounts(data)
    if usual is not None:
        return ClientFile(usual[0], ClientAmounts(*usual[1]), None, "")
    return _parse_start_time(data) or _parse_slowly(data, origin)


def parse_usual_amounts(data: bytes) -> tuple[int, list[int]] | None:
    """
    Return (start_ns, the fields of ClientAmounts) of a file whose every line has four numbers
    behind its count, as nearly all have from 2.15.2 on: as parse_client_file(), in half the time;
    else None.
    """
    words = data.split()
    names, samples = tuple(words[9::8]), words[10::8]
    layout = _layouts.get(names) or _find_layout(names)
    if (layout is None or len(words) != 9 + 8 * len(names) or words[0:9:3] != _HEADERS
            or words[11::8] != _SAMPLES[:len(names)] or not data.endswith(b"\n")
            or data.count(b"\n") != 3 + len(names) or not b"".join(samples).isdigit()):
        return None
    rest_of, transferred = layout
    amounts = [0, 0, 0, 0, sum(map(int, rest_of(samples)))]
    for column, place in transferred:
        times, largest, total = samples[place], words[14 + 8 * place], words[15 + 8 * place]
        if not (largest.isdigit() and total.isdigit()) or int(total) > min(
                _LARGEST, int(times) * int(largest)):
            return None
        amounts[column], amounts[column + 2] = int(total), int(times)
    start = words[4].replace(b".", b"", 1)
    if len(start) != 19 or not start.isdigit() or words[4][10:11] != b".":
        return None
    return (int(start), amounts) if int(start) >= stats.FIRST_WALL_CLOCK_NS else None


def _find_layout(names: tuple[bytes, ...]) -> _Layout | None:
    """Find the lines that parse_usual_amounts() needs; None if a name is there twice."""
    if len(set(names)) != len(names) or not b"".join(names).isascii() or len(names) > len(_SAMPLES):
        return None
    kinds = [_classify(name) for name in names]
    places = [place for place, kind in enumerate(kinds) if kind == _OPERATION]
    index = places[0] if places else 0
    layout = (itemgetter(*places)
              if len(places) > 1 else itemgetter(slice(index, index + len(places))),
              [(kind, kinds.index(kind)) for kind in (_READ, _WRITTEN) if kind in kinds])
    if len(_layouts) < _MOST_NAMES:
        _layouts[names] = layout
    return layout


def _parse_start_time(data: bytes) -> ClientFile | None:
    times = _TIMES.match(data)
    if times is None or not data.endswith(b"\n"):
        return None
    lines: list[tuple[bytes, bytes, bytes, bytes, bytes]] = _COUNTS.findall(data, times.end())
    if len(lines) != data.count(b"\n", times.end()):
        return None
    read_bytes = write_bytes = reads = writes = operations = 0
    names: set[bytes] = set()
    for name, samples, low, high, total in lines:
        kind = _kinds.get(name)
        if kind is None:
            kind = _classify(name)
        if low:
            if int(total) > int(samples) * int(high) or int(high) < int(low):
                return None
        elif kind <= _WRITTEN:                      # without the sum that it has in each release
            return None
        if kind == _OPERATION:
            operations += int(samples)
        elif kind == _READ:
            read_bytes, reads = int(total), int(samples)
        elif kind == _WRITTEN:
            write_bytes, writes = int(total), int(samples)
        names.add(name)
    if len(names) != len(lines):
        return None
    seconds, ns = times.groups()
    start_ns = int(seconds + ns) if seconds else 0
    amounts = ClientAmounts(read_bytes, write_bytes, reads, writes, operations)
    if start_ns >= stats.FIRST_WALL_CLOCK_NS:
        return ClientFile(start_ns, amounts, None, "")
    return ClientFile(0, amounts, {
        name.decode(): (int(samples), int(low), int(high), int(total))
        if _kinds.get(name, _OTHER) <= _WRITTEN else (int(samples),)
        for name, samples, low, high, total in lines}, "")


def _classify(name: bytes) -> int:
    text = name.decode("ascii")
    kind = (_READ if text == "read_bytes" else _WRITTEN if text == "write_bytes" else
            _OPERATION if is_operation(text) else _OTHER)
    if len(_kinds) < _MOST_NAMES:
        _kinds[name] = kind
    return kind


def _parse_slowly(data: bytes, origin: str) -> ClientFile:
    reading = parse(data, origin)
    if reading.snapshot_ns is None:
        shown = data.decode("utf-8", "replace").partition("\n")[0][:60]
        return ClientFile(0, ClientAmounts(*[None] * 5), None,
                          f"{origin}:1: expected snapshot_time, got {shown!r}")
    amounts = ClientAmounts(*(None if amount is None or not 0 <= amount <= _LARGEST else amount
                              for amount in sum_amounts(reading)))
    why = next(iter(reading.bad.values()), "")
    if None in amounts:
        why = why or f"{origin}: expected sums of bytes below 2**63, got larger ones, or none"
    elif reading.start_ns:
        why = ""                                # it is of a counter that none of these is made of
    if reading.start_ns or why:                 # each counter is compared where there is no start
        return ClientFile(reading.start_ns or 0,
                          amounts if reading.start_ns else ClientAmounts(*[None] * 5), None, why)
    return ClientFile(0, amounts, {                 # bytes have all their numbers
        name: (counter.samples, counter.min or 0, counter.max or 0, counter.sum or 0)
        if name in ("read_bytes", "write_bytes") else (counter.samples,)
        for name, counter in reading.counters.items()}, "")


def sum_amounts(reading: Reading) -> ClientAmounts:
    """
    Compute the client's amounts from its Reading.

    >>> sum_amounts(parse(b"read_bytes 23 samples [bytes] 4096 4096 94208\\n"))
    ClientAmounts(read_bytes=94208, write_bytes=0, reads=23, writes=0, operations=0)
    """
    counters, bad = reading.counters, reading.bad

    def transferred(direction: str) -> tuple[int | None, int | None]:
        name = f"{direction}_bytes"
        if name in counters:
            return counters[name].sum, counters[name].samples
        return (None, None) if name in bad or "" in bad else (0, 0)
    (read_bytes, reads), (write_bytes, writes) = transferred("read"), transferred("write")
    operations = None
    if not any(not name or is_operation(name) for name in bad):
        operations = sum(counter.samples for name, counter in counters.items()
                         if is_operation(name))
    return ClientAmounts(read_bytes, write_bytes, reads, writes, operations)
