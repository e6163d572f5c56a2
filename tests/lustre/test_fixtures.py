"""
Real files of real systems (shared/fixtures, Lustre 1.8 to 2.16 and vendors'): not one line is lost.

A second witness reads each file with regular expressions, which share nothing with the parser but
the form of the file; both must see the same counters, number for number.
"""

import re

import pytest
from trees import samples, shared

from iostats.lustre import job_stats, rpc_stats, stats

HEADER = re.compile(r"\s*(snapshot_time|start_time|elapsed_time):?\s+\d+\.\d+ "
                    r"\(?secs\.[un]secs\)?\s*")
COUNTER = re.compile(r"\s*(.+?)\s+(\d+) samples \[([^\]\n]+)\]?((?: -?\d+)*)\s*")
ROW = re.compile(r"(\d+):\s+(\d+)\s+\d+\s+\d+(?:\s+\|\s+(\d+)\s+\d+\s+\d+)?\s*")
TITLE = re.compile(r"\s+(read\s+write|modify)\s*|[a-zA-Z() ]+ (rpcs|count)\s+%%? cum %%?.*")
GAUGE = re.compile(r"[a-zA-Z_ ]+:\s+\d+\s*")
PARAMETER = re.compile(r"(?m)^([\w.@:-]+)=(.*)$")


def seen_in_stats(text):
    """{name: (samples, unit, numbers)} of a `stats` file, by regular expression."""
    lines = [line for line in text.split("\n") if line.strip() and not HEADER.fullmatch(line)]
    counters = {}
    for name, count, unit, numbers in (COUNTER.fullmatch(line).groups() for line in lines):
        # Servers of 2.10 print `statfs` twice, without numbers: together they are the calls.
        before = counters.get(name, (0,))[0]
        counters[name] = (before + int(count), unit, tuple(map(int, numbers.split())))
    return counters


def parsed_from_stats(text):
    """The same of iostats' parser."""
    return {name: (counter.samples, counter.unit,
                   tuple(n for n in counter[2:] if n is not None))
            for name, counter in stats.parse(text).counters.items()}


def seen_in_histogram(text):
    """[the cells that are not 0, gauges] of an `rpc_stats` file, by regular expression."""
    lines = [line for line in text.split("\n") if line.strip() and not HEADER.fullmatch(line)]
    rows = [found for found in map(ROW.fullmatch, lines) if found]
    gauges = [line for line in lines if GAUGE.fullmatch(line)]
    titles = [line for line in lines if TITLE.fullmatch(line)]
    assert len(lines) == len(rows) + len(gauges) + len(titles), "the witness knows every line"
    return (sorted(int(n) for row in rows for n in row.groups()[1:] if n and int(n)),
            sorted(int(line.rpartition(":")[2]) for line in gauges))


def parsed_from_histogram(text):
    """The same of iostats' parser."""
    reading = rpc_stats.parse(text)
    return (sorted(counter.samples for counter in reading.counters.values()),
            sorted(reading.gauges.values()))


def stats_in_lctl(text):
    """{parameter: value} of the `...stats` parameters in the text of `lctl get_param`."""
    starts = list(PARAMETER.finditer(text))
    ends = [found.start() for found in starts[1:]] + [len(text)]
    return {found[1]: text[found.start(2):end] for found, end in zip(starts, ends)
            if re.search(r"\.(md_|read_ahead_)?stats$", found[1])}


def seen_in_job_stats(text):
    """
    [(id as printed, {name: (samples, unit, numbers)})] of job_stats, by regular expression.

    With counters at 0; `hist` is cut off.  Every line is an entry's, a header, a time or a counter.
    """
    jobs = []
    for line in text.split("\n"):
        job = re.fullmatch(r"\s*- job_id:[ \t]*(.*)", line)
        counter = re.fullmatch(r"\s*(\w+):\s*\{(.*)\}\s*", line)
        if job:
            jobs.append((job[1], {}))
        elif counter:
            fields = dict(re.findall(r"(\w+):\s*([^,{}]+)", counter[2].partition(", hist:")[0]))
            count, unit = int(fields.pop("samples")), fields.pop("unit").strip()
            jobs[-1][1][counter[1]] = (count, unit, tuple(int(n) for n in fields.values()))
        else:
            assert re.fullmatch(r"\s*|\s*job_stats:|\s*(snapshot|start|elapsed)_time:\s+\d+"
                                r"(\.\d{9} secs\.nsecs)?", line), line
    return jobs


def parsed_from_job_stats(data):
    """The same of iostats' parser, from the file's bytes, without the counters at 0."""
    return [(one.job_id, {name: (counter.samples, counter.unit,
                                 tuple(n for n in counter[2:] if n is not None))
                          for name, counter in one.counters.items()})
            for one in map(job_stats.parse, job_stats.split_entries([data]))]


def in_use(jobs):
    """The same without the counters at 0, and with ids as they are meant."""
    def meant(job_id):
        if job_id[:1] != '"':
            return job_id
        raw = re.sub(r"\\x(..)", lambda found: chr(int(found[1], 16)), job_id[1:-1])
        return raw.encode("latin-1").decode("utf-8")
    return [(meant(job_id), {name: counter for name, counter in counters.items() if counter[0]})
            for job_id, counters in jobs]


STATS = """
    HewlettPackard__lustre_exporter/2.10.1/llite_stats.txt
    HewlettPackard__lustre_exporter/2.10.1/mdc_md_stats.txt
    HewlettPackard__lustre_exporter/2.10.1/mdc_stats.txt
    HewlettPackard__lustre_exporter/2.10.1/mdt_exports_stats_172.20.20.4_at_o2ib.txt
    HewlettPackard__lustre_exporter/2.10.1/mdt_md_stats.txt
    HewlettPackard__lustre_exporter/2.10.1/obdfilter_stats.txt
    HewlettPackard__lustre_exporter/2.10.1/osc_stats.txt
    HewlettPackard__lustre_exporter/2.10.1/osc_stats_idle.txt
    HewlettPackard__lustre_exporter/2.10.1/ost_exports_ldlm_stats.txt
    HewlettPackard__lustre_exporter/2.10.1/ost_exports_stats_OST0_172.20.20.2_at_o2ib.txt
    HewlettPackard__lustre_exporter/2.10.1/ost_exports_stats_OST0_172.20.20.4_at_o2ib.txt
    LLNL__lmt/1.8.3/obdfilter_stats.txt
    LLNL__lmt/2.0.53/mdt_exports_stats_192.168.1.29_at_tcp.txt
    LLNL__lmt/2.0.53/obdfilter_stats.txt
    LLNL__lmt/2.10.8/mdt_md_stats.txt
    LLNL__lmt/2.10.8/obdfilter_stats.txt
    LLNL__lmt/2.12.9/mdt_md_stats_MDT0000.txt
    LLNL__lmt/2.12.9/obdfilter_stats_OST0000.txt
    LLNL__lmt/2.15.4/mdt_md_stats_MDT0000.txt
    LLNL__lmt/2.15.4/obdfilter_stats_OST0000.txt
    TACC__tacc_stats/unknown-1.8/llite_stats_head.txt
    TACC__tacc_stats/unknown-1.8/osc_stats.txt
    UlkuTuncerKucuktas__WAIT/unknown-2.15.2-to-2.16/mdc_md_stats.txt
    influxdata__telegraf/labelled-2.12/obdfilter_stats.txt
    influxdata__telegraf/labelled-2.15/mdt_md_stats_short.txt
    influxdata__telegraf/labelled-2.15/obdfilter_stats_short.txt
    influxdata__telegraf/labelled-2.17/obdfilter_stats_short.txt
    influxdata__telegraf/unknown-2023/mdt_md_stats_lctl.txt
    ovis-hpc__ldms/2.12/mdc_md_stats.txt
    ovis-hpc__ldms/2.12/mdc_stats_debugfs.txt
    performancecopilot__pcp/unknown-2.4-to-2.7/llite_stats.txt
    whamcloud__lustrefs-exporter/2.14.0_ddn259/llite_read_ahead_stats.txt
    whamcloud__lustrefs-exporter/2.14.0_ddn259/llite_stats.txt
    whamcloud__lustrefs-exporter/2.14.0_ddn259/mdc_md_stats.txt
    whamcloud__lustrefs-exporter/2.14.0_ddn259/mdc_stats.txt
    whamcloud__lustrefs-exporter/2.16.0_ddn56b/llite_read_ahead_stats.txt
    whamcloud__lustrefs-exporter/2.16.0_ddn56b/mdc_md_stats.txt
    whamcloud__lustrefs-exporter/2.16.0_ddn56b/mdc_stats.txt
    whamcloud__lustrefs-exporter/2.16.0_ddn56b/osc_stats_OST0000.txt
    whamcloud__lustrefs-exporter/2.16.0_ddn56b/osc_stats_OST0001.txt
""".split()

HISTOGRAMS = """
    HewlettPackard__lustre_exporter/2.10.1/mdc_rpc_stats.txt
    HewlettPackard__lustre_exporter/2.10.1/osc_rpc_stats.txt
    HewlettPackard__lustre_exporter/2.10.1/osc_rpc_stats_idle.txt
    whamcloud__lustrefs-exporter/2.16.0_ddn56b/osc_rpc_stats_OST0000.txt
""".split()

# Text of `lctl get_param`: how many parameters of the `stats` form are in it.
LCTL = {
    "microsoft__DLWorkspace/unknown-2.12-era/lctl_obdfilter_stats.txt": 1,
    "whamcloud__lustre-collector/2.14.0_ddn144/lctl_mds_params.txt": 26,
    "whamcloud__lustre-collector/unknown-exa6.2/lctl_server_params_with_job_stats.txt": 11,
    "whamcloud__lustrefs-exporter/2.14.0_ddn133/lctl_exports_and_more.txt": 74,
    "whamcloud__lustrefs-exporter/2.14.0_ddn145/lctl_server_params.txt": 26,
    "whamcloud__lustrefs-exporter/2.14.0_ddn194/lctl_server_params.txt": 2,
    "whamcloud__lustrefs-exporter/2.14.0_ddn259/lctl_osc_stats_two_osts.txt": 2,
    "whamcloud__lustrefs-exporter/unknown-2.12-era/lctl_mds_params.txt": 18,
    "whamcloud__lustrefs-exporter/unknown-2.12-era/lctl_server_params.txt": 10,
    "whamcloud__lustrefs-exporter/unknown-ai400x2/lctl_server_params_ai400x2.txt": 11,
}

# How many entries, and how many of their counters are not at 0.
JOB_STATS = {
    "GSI-HPC__lustre_exporter/unknown/ost_job_stats_loop36.txt": (1, 1),
    "HewlettPackard__lustre_exporter/2.10.1/mdt_job_stats.txt": (15, 15),
    "HewlettPackard__lustre_exporter/2.10.1/ost_job_stats.txt": (35, 70),
    "influxdata__telegraf/labelled-2.12/mdt_job_stats.txt": (2, 32),
    "influxdata__telegraf/labelled-2.12/ost_job_stats.txt": (2, 6),
    "influxdata__telegraf/labelled-2.15/mdt_job_stats_yhcontrol.txt": (2, 2),
    "influxdata__telegraf/unknown-2023/ost_job_stats_kworker_tabindent.txt": (2, 1),
    "whamcloud__lustrefs-exporter/unknown-2.10-2.12/ost_job_stats_cp0.txt": (1, 1),
    "whamcloud__lustrefs-exporter/unknown-2.14-ddn/lctl_job_stats_ost_mdt_slurm.txt": (16, 48),
    "whamcloud__lustrefs-exporter/unknown-2.14-ddn/ost_job_stats_hist.txt": (1, 3),
    "whamcloud__lustrefs-exporter/unknown-2.14/mdt_job_stats_usecs.txt": (1, 4),
}

BRW_STATS = "brw_stats: a server's histograms of its disks, never of a job"
IMPORT = "import, state: the health of a connection, no counters"
VALUE = "one value, no counters"
OTHERS = {
    "HewlettPackard__lustre_exporter/2.10.1/health_check.txt": VALUE,
    "HewlettPackard__lustre_exporter/2.10.1/job_cleanup_interval.txt": VALUE,
    "HewlettPackard__lustre_exporter/2.10.1/jobid_name_empty.txt": VALUE,
    "HewlettPackard__lustre_exporter/2.10.1/jobid_var.txt": VALUE,
    "HewlettPackard__lustre_exporter/2.10.1/llite_extents_stats_disabled.txt":
        "extents_stats: sizes of single reads and writes, off by default",
    "HewlettPackard__lustre_exporter/2.10.1/llite_statahead_stats.txt":
        "statahead_stats: the client's own look-ahead, no I/O of a program",
    "HewlettPackard__lustre_exporter/2.10.1/mdc_import.txt": IMPORT,
    "HewlettPackard__lustre_exporter/2.10.1/mdt_rename_stats.txt":
        "rename_stats: a server's histogram of its directories' sizes",
    "HewlettPackard__lustre_exporter/2.10.1/osc_import_OST0000.txt": IMPORT,
    "HewlettPackard__lustre_exporter/2.10.1/osc_osc_stats.txt":
        "osc_stats: lockless I/O alone, which is in `stats` as well",
    "HewlettPackard__lustre_exporter/2.10.1/osc_state_OST0000.txt": IMPORT,
    "HewlettPackard__lustre_exporter/2.10.1/osd_brw_stats.txt": BRW_STATS,
    "HewlettPackard__lustre_exporter/2.10.1/osp_import.txt": IMPORT,
    "HewlettPackard__lustre_exporter/2.10.1/osp_state.txt": IMPORT,
    "HewlettPackard__lustre_exporter/2.10.1/version.txt": VALUE,
    "LLNL__lmt/2.0.53/version_3line.txt": VALUE,
    "LLNL__lmt/2.10.8/obdfilter_brw_stats.txt": BRW_STATS,
    "LLNL__lmt/2.10.8/version.txt": VALUE,
    "LLNL__lmt/2.12.9/osd_brw_stats_OST0000.txt": BRW_STATS,
    "LLNL__lmt/2.12.9/version.txt": VALUE,
    "LLNL__lmt/2.15.4/osd_brw_stats_OST0000.txt": BRW_STATS,
    "LLNL__lmt/2.15.4/version.txt": VALUE,
    "influxdata__telegraf/labelled-2.12/eviction_count_ost.txt": VALUE,
    "influxdata__telegraf/labelled-2.12/health_check.txt": VALUE,
    "influxdata__telegraf/labelled-2.12/osd_brw_stats.txt": BRW_STATS,
    "whamcloud__integrated-manager-for-lustre/unknown-1.8-to-2.1/kernel_log_connect_evict.txt":
        "the kernel log: events, no counters",
    "whamcloud__lustrefs-exporter/2.16.0_ddn56b/llite_extents_stats.txt":
        "extents_stats: sizes of single reads and writes, off by default",
    "whamcloud__lustrefs-exporter/2.16.0_ddn56b/osc_state_OST0000_idle_cycle.txt": IMPORT,
    "whamcloud__lustrefs-exporter/unknown-2.15+/brw_stats_with_start_time.txt": BRW_STATS,
    "whamcloud__lustrefs-exporter/unknown/brw_stats_with_data.txt": BRW_STATS,
}


def text_of(name):
    return shared("fixtures", name).read_bytes().decode("latin-1")


@pytest.mark.parametrize("path", samples("fixtures", "*/**/*.txt"))
def test_every_sample_is_read_or_stands_in_the_table_of_what_is_not(path):
    """A new file in the directory fails here until somebody has said what becomes of it."""
    name = path.relative_to(shared("fixtures")).as_posix()
    tables = (STATS, HISTOGRAMS, LCTL, JOB_STATS, OTHERS)
    assert 1 == [name in table for table in tables].count(True)


@pytest.mark.parametrize("name", STATS)
def test_a_real_stats_file_loses_no_line(name):
    """Every line is a header, a blank one, or a counter that both witnesses see alike."""
    assert seen_in_stats(text_of(name)) == parsed_from_stats(text_of(name))


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_a_real_rpc_stats_file_loses_no_line(name):
    """Every line is a header, a gauge, a title, a blank one, or a row whose cells are counted."""
    assert seen_in_histogram(text_of(name)) == parsed_from_histogram(text_of(name))


@pytest.mark.parametrize("name, how_many", LCTL.items(), ids=list(LCTL))
def test_the_stats_in_the_text_of_lctl_lose_no_line(name, how_many):
    """Each parameter is a file of its own, and no counter stands outside of one that is read."""
    blocks = stats_in_lctl(text_of(name))
    assert how_many == len(blocks)
    assert {parameter: seen_in_stats(text) for parameter, text in blocks.items()} == {
        parameter: parsed_from_stats(text) for parameter, text in blocks.items()}
    assert len(re.findall(r"\d samples \[", text_of(name))) == sum(
        len(parsed_from_stats(text)) for text in blocks.values())


@pytest.mark.parametrize("name, how_many", JOB_STATS.items(), ids=list(JOB_STATS))
def test_a_real_job_stats_file_loses_no_entry_and_no_counter(name, how_many):
    """All that two witnesses see alike; the files were cut out of programs, or are lctl's text."""
    data = shared("fixtures", name).read_bytes()
    text = re.sub(r"(?m)^(obdfilter|mdt)\.[\w.-]+\.job_stats=", "", data.decode("latin-1"))
    seen = in_use(seen_in_job_stats(text))
    assert seen == parsed_from_job_stats(text.encode("latin-1"))
    assert how_many == (len(seen), sum(len(counters) for _, counters in seen))
    assert len(seen) == sum(1 for _, piece in job_stats.dump([data]) if piece)


def test_numbers_of_real_job_stats_files_are_these():
    """Read in the files by eye."""
    def counter_of(name, job_id, counter):
        return dict(parsed_from_job_stats(shared("fixtures", name).read_bytes()))[job_id][counter]
    assert (25, "bytes", (1048576, 16777216, 26214400)) == counter_of(
        "influxdata__telegraf/labelled-2.12/ost_job_stats.txt", "cluster-testjob1", "write_bytes")
    assert (12999, "bytes", (4096, 1048576, 3918708736, 1989431670079488)) == counter_of(
        "whamcloud__lustrefs-exporter/unknown-2.14-ddn/ost_job_stats_hist.txt",
        "SLURM_JOB_machine176_2453:0:mac", "write_bytes")
    assert (169256, "bytes", (4096, 4194304, 62372188160)) == counter_of(
        "influxdata__telegraf/unknown-2023/ost_job_stats_kworker_tabindent.txt", "1306853",
        "read_bytes")
    assert (174, "reqs", ()) == counter_of(
        "influxdata__telegraf/labelled-2.15/mdt_job_stats_yhcontrol.txt", "1311947", "getattr")


def test_job_stats_among_other_parameters_are_found_under_their_names():
    """A server's whole `lctl get_param`: two OSTs without jobs, an MDT with two."""
    name = "whamcloud__lustre-collector/unknown-exa6.2/lctl_server_params_with_job_stats.txt"
    found = [(parameter, job_stats.parse(piece)) for parameter, piece in
             job_stats.dump([shared("fixtures", name).read_bytes()]) if piece]
    assert [("mdt.fs-MDT0000.job_stats", "df.0"), ("mdt.fs-MDT0000.job_stats", "bash.0")] == [
        (parameter, one.job_id) for parameter, one in found]
    assert (1, "usecs", 55, 55, 55, 3025) == found[0][1].counters["getattr"]


def test_the_witness_is_no_accomplice():
    """It sees what is there (and would so notice a line that the parser had dropped)."""
    assert {"read bytes x": (23, "bytes", (1, 37, 41)), "open": (5, "regs", ())} == seen_in_stats(
        "snapshot_time 1.5 secs.nsecs\nread bytes x   23 samples [bytes] 1 37 41\n"
        "open  5 samples [regs]\n")
