"""
The form of `rpc_stats` files, 2.5 to 2.17: sections are known by their title, never by their place.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import StatsSyntaxError
from iostats.lustre import rpc_stats
from iostats.lustre.stats import Counter

OSC_2_10 = """\
snapshot_time:         1510950459.783304874 (secs.nsecs)
read RPCs in flight:  3
write RPCs in flight: 5
pending write pages:  256
pending read pages:   0

\t\t\tread\t\t\twrite
pages per rpc         rpcs   % cum % |       rpcs   % cum %
1:\t\t        23  60  60   |          0   0   0
2:\t\t         0   0  60   |          0   0   0
4:\t\t         0   0  60   |         37  90  90
256:\t\t        15  39 100   |          4   9 100

\t\t\tread\t\t\twrite
rpcs in flight        rpcs   % cum % |       rpcs   % cum %
0:\t\t        31  81  81   |          0   0   0
1:\t\t         7  18 100   |         41 100 100

\t\t\tread\t\t\twrite
offset                rpcs   % cum % |       rpcs   % cum %
0:\t\t        38 100 100   |         41 100 100
"""

OSC_2_17 = """\
snapshot_time:            1795224917.906503220 secs.nsecs
start_time:               1795224876.294500160 secs.nsecs
elapsed_time:             41.612003060 secs.nsecs
read RPCs in flight:  0
write RPCs in flight: 0
DIO RPCs in flight: 2
pending write pages:  0
pending read pages:   0

\t\t\tread\t\t\twrite
pages per rpc         rpcs   % cum % |       rpcs   % cum %
1:\t\t         0   0   0   |          0   0   0
16:\t\t         8  72  72   |         11 100 100

\t\t\tread\t\t\twrite
RPC latency (us)       count   % cum % |       count   % cum %
2048:\t\t         5  62  62   |          2  18  18
65536:\t\t         3  37 100   |          9  81 100
"""

MDC_2_10 = """\
snapshot_time:         1510950459.783304874 (secs.nsecs)
modify_RPCs_in_flight:  0

\t\t\tmodify
rpcs in flight        rpcs   % cum %
0:\t\t         0   0   0
1:\t\t        90  45  45
7:\t\t        53  27 100
"""

MDC_2_16 = """\
snapshot_time:            1795225388.954392460 secs.nsecs
start_time:               0.000000000 secs.nsecs
elapsed_time:             68.204899180 secs.nsecs
modify_RPCs_in_flight:  2

\t\t\tmodify
rpcs in flight        rpcs   %% cum %%
0:\t\t         0   0   0
1:\t\t       156 100 100

read RPCs in flight:  0
write RPCs in flight: 0
pending write pages:  0
pending read pages:   0

\t\t\tread\t\t\twrite
pages per rpc         rpcs   % cum % |       rpcs   % cum %
1:\t\t         4 100 100   |          0   0   0
"""

IDLE = """\
snapshot_time:         1510950459.783304874 (secs.nsecs)
read RPCs in flight:  0
write RPCs in flight: 0
pending write pages:  0
pending read pages:   0

\t\t\tread\t\t\twrite
pages per rpc         rpcs   % cum % |       rpcs   % cum %
1:\t\t         0   0   0   |          0   0   0

\t\t\tread\t\t\twrite
rpcs in flight        rpcs   % cum % |       rpcs   % cum %
0:\t\t         0   0   0   |          0   0   0

\t\t\tread\t\t\twrite
offset                rpcs   % cum % |       rpcs   % cum %
0:\t\t         0   0   0   |          0   0   0
"""


def rpcs(**counts):
    return {name: Counter(count, "rpcs") for name, count in counts.items()}


@pytest.mark.parametrize("text, counters", [
    (OSC_2_10, rpcs(read_rpcs_pages_1=23, write_rpcs_pages_4=37, read_rpcs_pages_256=15,
                    write_rpcs_pages_256=4, read_rpcs_in_flight_0=31, read_rpcs_in_flight_1=7,
                    write_rpcs_in_flight_1=41, read_rpcs_offset_0=38, write_rpcs_offset_0=41)),
    (OSC_2_17, rpcs(read_rpcs_pages_16=8, write_rpcs_pages_16=11, read_rpcs_latency_us_2048=5,
                    write_rpcs_latency_us_2048=2, read_rpcs_latency_us_65536=3,
                    write_rpcs_latency_us_65536=9)),
    (MDC_2_10, rpcs(modify_rpcs_in_flight_1=90, modify_rpcs_in_flight_7=53)),
    (MDC_2_16, rpcs(modify_rpcs_in_flight_1=156, read_rpcs_pages_1=4)),
    (IDLE, {}),
], ids=["osc, 2.10", "osc, 2.17 with latency", "mdc, 2.10: modify alone",
        "mdc, 2.16: '%% cum %%', and two kinds of sections", "idle: a row of zeros in each"])
def test_every_cell_that_is_not_zero_is_a_counter(text, counters):
    """Column, section and row are in its name; the percentages are the kernel's, and not kept."""
    assert counters == rpc_stats.parse(text).counters


def test_numbers_of_now_are_gauges_and_never_counters():
    """`read RPCs in flight: 3` is now; a difference of two such numbers means nothing."""
    assert {"read RPCs in flight": 3, "write RPCs in flight": 5, "pending write pages": 256,
            "pending read pages": 0} == rpc_stats.parse(OSC_2_10).gauges


@pytest.mark.parametrize("text, snapshot_ns, start_ns", [
    (OSC_2_10, 1_510_950_459_783_304_874, None),
    (OSC_2_17, 1_795_224_917_906_503_220, 1_795_224_876_294_500_160),
    (MDC_2_16, 1_795_225_388_954_392_460, 0),
], ids=["2.10: parentheses", "2.17", "2.15.2 to 2.15.8: start_time 0 until a clear"])
def test_the_header_is_that_of_stats_with_a_colon(text, snapshot_ns, start_ns):
    """As in lustre.py; a start_time of 0 means "not cleared yet"."""
    reading = rpc_stats.parse(text)
    assert (snapshot_ns, start_ns) == (reading.snapshot_ns, reading.start_ns)


def test_an_unknown_section_is_carried_along_under_its_title():
    """A new release's histogram is read as the others are."""
    text = IDLE.replace("offset                rpcs", "moons per rpc         rpcs").replace(
        "0:\t\t         0   0   0   |          0   0   0\n",
        "0:\t\t        23   0   0   |         37   0   0\n")
    assert rpcs(read_rpcs_in_flight_0=23, write_rpcs_in_flight_0=37, read_rpcs_moons_per_rpc_0=23,
                write_rpcs_moons_per_rpc_0=37) == rpc_stats.parse(text).counters


@pytest.mark.parametrize("line", [
    "2:\t\t         0   0",
    "2:\t\t         0   0  60   |          0   0   x",
    "2:\t\t         0   0  60   |",
    "2:\t\t         0   0  60   |          1",
    "2:\t\t         0   0  60",
    "2:\t\t         0   0  60   |          0   0   0   |          0   0   0",
    "2:",
    "2",
    "16 ",
    "\xb2:\t\t         0   0  60   |          0   0   0",
    "2:\t\t         \xb2   0  60   |          0   0   0",
    "\t\t\tread\t\t\twri",
    "pages per rpc",
    "pending write pages:",
    "pending write pages:  many",
    "\x7fELF\x02\x01\x01\x00",
], ids=["torn in a row", "a letter in a cell", "an empty column", "torn in a cell",
        "a column short",
        "a column too many", "torn after the row's name", "torn in the row's name",
        "torn before the colon", "a superscript row", "a superscript cell", "torn in the columns",
        "torn in a title", "a gauge without its number", "a gauge in words", "a program"])
def test_a_line_that_is_not_of_the_form_is_refused_with_file_line_and_text(line):
    """A torn row is no row of zeros."""
    head = OSC_2_10[:OSC_2_10.index("2:\t\t")]
    with pytest.raises(StatsSyntaxError) as refusal:
        rpc_stats.parse(head + line + "\n", "osc/scratch-OST0000-osc-ff9a/rpc_stats")
    assert ("osc/scratch-OST0000-osc-ff9a/rpc_stats", 10, line) == (
        refusal.value.origin, refusal.value.lineno, refusal.value.line)


def test_columns_without_a_title_are_refused():
    """The line after `read write` must name the section, or its rows are of nothing."""
    with pytest.raises(StatsSyntaxError, match="a section's title"):
        rpc_stats.parse("\t\t\tread\t\t\twrite\n1:  23 60 60 |  0 0 0\n")


cells = st.tuples(st.integers(0, 2**40), st.integers(0, 2**40))


@given(st.dictionaries(
    st.sampled_from(["pages per rpc", "rpcs in flight", "offset"]),
    st.dictionaries(st.integers(0, 4096), cells, min_size=1)))
def test_what_the_kernel_prints_is_read_back(sections):
    """seq_printf(seq, "%d:\\t\\t%10lu %3u %3u   | %10lu %3u %3u\\n", ...), 2.5 to 2.17."""
    text, expected = "snapshot_time:         1510950459.783304874 (secs.nsecs)\n", {}
    short = {"pages per rpc": "pages", "rpcs in flight": "in_flight", "offset": "offset"}
    for title, rows in sections.items():
        text += f"\n\t\t\tread\t\t\twrite\n{title:<22}rpcs   % cum % |       rpcs   % cum %\n"
        for bucket, (read, write) in rows.items():
            text += f"{bucket}:\t\t{read:10} {50:3} {100:3}   | {write:10} {50:3} {100:3}\n"
            expected[f"read_rpcs_{short[title]}_{bucket}"] = read
            expected[f"write_rpcs_{short[title]}_{bucket}"] = write
    assert rpcs(**{name: n for name, n in expected.items() if n}) == rpc_stats.parse(
        text).counters


@given(st.one_of(
    st.text(),
    st.text(alphabet="readwitmodfy pgs019:|%()\n\t\r\x00\x1b\x85\xb2\uff12", max_size=200),
    st.builds(lambda text, at, what: text[:at] + what + text[at:],
              st.sampled_from([OSC_2_10, OSC_2_17, MDC_2_16]), st.integers(0, 500),
              st.text(max_size=3)),
    st.builds(lambda text, at: text[:at], st.sampled_from([OSC_2_10, OSC_2_17, MDC_2_16]),
              st.integers(0, 900))))
def test_no_text_at_all_raises_anything_but_a_syntax_error(text):
    """Whatever lies in the place of the file, the node's program ends with one line."""
    try:
        reading = rpc_stats.parse(text)
    except StatsSyntaxError:
        return
    assert all(isinstance(counter.samples, int) for counter in reading.counters.values())
