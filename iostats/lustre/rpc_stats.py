"""
Lustre `rpc_stats` files: how large, and how many at once, a target's bulk RPCs were.

    file    = header* gauge* section*
    header  = "snapshot_time:" SECONDS "secs.nsecs" | ... "(secs.nsecs)"     as in stats.py
    gauge   = TEXT ":" NUMBER                        "read RPCs in flight:  0"
    section = "read" "write"  or  "modify"           the columns
              TITLE ("rpcs" | "count") "% cum %" [| ...]
              row*
    row     = BUCKET ":" RPCS % CUM% ["|" RPCS % CUM%]

                            read                    write
    pages per rpc         rpcs   % cum % |       rpcs   % cum %
    1:                  100395  88  88   |     320551  84  84

Sections are known by their title, never by their place: 2.16 and vendors add "RPC latency
(us)", mdc begins with a "modify" section of one column.  2.16.1 prints "%% cum %%" there.

Each cell that is not 0 becomes a Counter named COLUMN_rpcs_TITLE_BUCKET, such as
`read_rpcs_pages_16`, so that delta.py treats it as any other: a row that was removed
is a clear.

Source: osc_rpc_stats_seq_show(), lustre/osc/lproc_osc.c; mdc_rpc_stats_seq_show(),
lustre/mdc/lproc_mdc.c; 2.5 to 2.17.
"""

from __future__ import annotations

from iostats.base.errors import StatsSyntaxError
from iostats.lustre.stats import (
    Counter,
    Reading,
    are_digits,
    is_number,
    parse_header_line,
    start_time,
)

SHORT_TITLE = {
    "pages per rpc": "pages",                # bucket: pages in the RPC, power of two
    "rpcs in flight": "in_flight",           # bucket: RPCs on the wire when it was sent
    "offset": "offset",                      # bucket: page offset in the object, power of two
    "RPC latency (us)": "latency_us",        # since 7678ff9606 (2.17), vendors earlier
}


def parse(text: str, origin: str = "rpc_stats") -> Reading:
    """The Reading in the text of one `rpc_stats` file; raises StatsSyntaxError."""
    counters: dict[str, Counter] = {}
    times: dict[str, int] = {}
    columns: tuple[str, ...] = ()
    gauges, title = {}, None
    for lineno, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if not words or (words[-1].lstrip("(").startswith("secs.")
                         and parse_header_line(line, times)):
            continue
        if words in (["read", "write"], ["modify"]):
            columns, title = tuple(words), None
        elif columns and title is None:
            title = _parse_title(line)
            if title is None:
                raise StatsSyntaxError(origin, lineno, line, "a section's title")
        elif title is not None and words[0][-1] == ":" and is_number(words[0][:-1]):
            if not _parse_row(words, columns, title, counters):
                raise StatsSyntaxError(origin, lineno, line, '"<n>: <rpcs> <%> <cum %> | ..."')
        else:
            name, colon, value = line.partition(":")
            if not colon or not is_number(value.strip()):
                raise StatsSyntaxError(origin, lineno, line, '"<title>: <number>" or a row')
            gauges[name.strip()] = int(value.strip())  # int() alone takes fewer blanks
            columns, title = (), None
    return Reading(counters, times.get("snapshot_time"), start_time(times), gauges)


def _parse_title(line: str) -> str | None:
    """The section's name in counters: "pages" of "pages per rpc    rpcs   % cum % | ..."."""
    head = line.partition("%")[0].rstrip()
    for column_word in ("rpcs", "count"):
        if head.endswith(column_word):
            title = head[:-len(column_word)].rstrip()
            return SHORT_TITLE.get(title, title.replace(" ", "_"))
    return None


def _parse_row(words: list[str], columns: tuple[str, ...], title: str,
               counters: dict[str, Counter]) -> bool:
    """Take the row `words` into `counters`; False for an unexpected format."""
    cells = [words[place:place + 3] for place in range(1, len(words), 4)]
    if (len(words) != 4 * len(columns) or set(words[4::4]) - {"|"}
            or not all(map(are_digits, cells))):
        return False
    bucket = words[0][:-1]
    for column, cell in zip(columns, cells):
        if cell[0] != "0":
            counters[f"{column}_rpcs_{title}_{bucket}"] = Counter(int(cell[0]), "rpcs")
    return True
