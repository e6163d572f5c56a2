"""
--long as a reader sees it: whole screens, kept as text below screens/; and that no record, however
odd, makes a line that is wider than the screen.

A screen that was changed on purpose is written again by IOSTATS_WRITE_SCREENS=1, and looked at.
"""

import os
import re
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_job_tables import at_servers, job, with_harvest
from test_job_tables_long import md_stats, mdc, rpc_stats
from test_job_totals import llite, osc
from test_record import JOBS as RECORDED
from test_record import written
from trees import report as of_node

from iostats.base.config import Config
from iostats.base.text import measure_width
from iostats.report import job_tables
from iostats.report.screen import Screen
from iostats.wire.messages.report import ReportedPhase, ReportedSeries

SCREENS = Path(__file__).parent / "screens"
MIB, GIB, TIB = 2**20, 2**30, 2**40


# -- jobs --------------------------------------------------------------------------------------

def small_writes(node="nid00001", file_system="scratch"):
    """
    41 GiB written in 23 million calls of 1.9 KB, 1.3 TiB read in 1 MiB; OST0003 has most of it.
    """
    return [
        llite(file_system, read_bytes=13 * TIB // 10, read_calls=1_363_149,
              write_bytes=41 * GIB, write_calls=23_000_037, open=1_237, open_us=8_300_000,
              close=1_237, close_us=411_000, read=1_363_149, read_us=731_000_000,
              write=23_000_037, write_us=2_911_000_000, getattr=37_411, getattr_us=3_700_000,
              unlink=23, unlink_us=61_403, mkdir=13, mkdir_us=41_000, fsync=3, fsync_us=9_700_000,
              seek=771_377, seek_us=410_000, statfs=1, statfs_us=23),
        *(osc(f"OST{number:04x}", file_system, read_bytes=share * GIB, read_rpcs=share * 1024,
              write_bytes=(41 if number == 3 else 0) * GIB, write_rpcs=(number == 3) * 41_000)
          for number, share in enumerate((23, 29, 31, 1200, 5, 0, 7))),
        mdc(), md_stats(close=1_237, create=41, getattr=37_411, intent_lock=23_457,
                        revalidate_lock=999),
        rpc_stats(read_rpcs_pages_256=1_290_000, read_rpcs_pages_1=37, read_rpcs_pages_4=411,
                  write_rpcs_pages_1=23_000, write_rpcs_pages_16=13_000,
                  write_rpcs_pages_256=5_000)]


def series(*operations):
    return ReportedSeries(1_795_225_000.0, 60.0, [GIB * amount for amount in operations],
                          [0] * len(operations), [37 * amount for amount in operations])


def one_node():
    return job(of_node(deltas=small_writes(), elapsed_s=1867.0, ended=1_795_226_867.0,
                       series={"scratch": series(*(n * n % 41 for n in range(31)))}))


def many_nodes():
    """16 nodes, of which nid00013 reads most; one more has not reported."""
    of_each = [of_node(f"nid{number:05}", [
        llite(read_bytes=(230 if number == 13 else 37) * GIB, read_calls=41_003 * number,
              open=23 * number, open_us=61_403 * number, mkdir=number == 1),
        osc("OST0000", read_bytes=37 * GIB, read_rpcs=37_000), osc("OST0001"),
        md_stats("MDT0000", close=23 * number), md_stats("MDT0001", create=number)],
        elapsed_s=1867.0, ended=1_795_226_867.0) for number in range(1, 17)]
    return job(*of_each, expected=17)


def several_file_systems():
    """Two in use, of which one has a hostile name of 4 kB, and three on which nothing was done."""
    return job(of_node(deltas=[
        *small_writes(), llite("日本" + "x" * 4000, read_bytes=23, read_calls=1),
        *(llite(name) for name in ("home", "apps", "archive"))], elapsed_s=61.0, cpus=1,
        phases=[ReportedPhase("stage", 23.0, [llite(read_bytes=TIB)]),
                ReportedPhase("solve" * 40, 37.0, [llite(write_bytes=41 * GIB, open=1_237)])]))


def thousands():
    """994 further OSTs, and an MDT for each node of hundreds."""
    return job(of_node(deltas=[
        llite(read_bytes=TIB, read_calls=23),
        *(osc(f"OST{number:04x}", read_bytes=(1000 - number) * MIB, read_rpcs=1000 - number)
          for number in range(998)),
        *(md_stats(f"MDT{number:04x}", close=number) for number in range(41))]))


def both_sides():
    """What the storage servers counted of it, too."""
    found, config = one_node()
    there = {**at_servers(low=True, open=(60, 0.061), rename=(3, None)), "name": "scratch",
             "label": "scratch"}
    return with_harvest(found, there), config


JOBS = {"one_node": one_node, "many_nodes": many_nodes,
        "several_file_systems": several_file_systems, "thousands": thousands,
        "both_sides": both_sides}


def screen_of(found, width, is_ascii=False, form="grid", paint=None):
    return job_tables.format_report(*found, form, True, False, Screen(width, is_ascii, paint))


# -- whole screens -------------------------------------------------------------------------------

@pytest.mark.parametrize("name, width, is_ascii", [
    *((name, width, False) for name in JOBS for width in (80, 120, 200)
      if width == 80 or name != "both_sides"),
    ("one_node", 80, True), ("many_nodes", 80, True)])
def test_the_screen_is_the_one_that_is_kept(name, width, is_ascii):
    printed = screen_of(JOBS[name](), width, is_ascii)
    kept = SCREENS / f"{name}_{width}{'_ascii' * is_ascii}.txt"
    if os.environ.get("IOSTATS_WRITE_SCREENS"):
        kept.write_text(printed, encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == printed
    assert not is_ascii or printed.isascii()


@pytest.mark.parametrize("name", ["one_node", "many_nodes", "thousands"])
def test_a_job_of_one_file_system_is_one_screen(name):
    """Below the two tables that stand first."""
    lines = screen_of(JOBS[name](), 80).splitlines()
    [first] = [number for number, line in enumerate(lines) if line.startswith("Transfers")]
    assert len(lines) - first <= 40


def test_a_log_is_as_wide_as_a_terminal_of_80_columns():
    assert job_tables.format_report(*many_nodes(), "grid", True) == screen_of(many_nodes(), 80)


def test_colours_change_no_word_and_no_width():
    """What is painted is what stands there without colours."""
    def paint(style, text):
        return f"\x1b[{len(style)}m{text}\x1b[0m"
    for found in (one_node(), many_nodes(), several_file_systems()):
        for width in (80, 120, 200):
            painted = screen_of(found, width, paint=paint)
            plain = re.sub("\x1b\\[[0-9]m", "", painted)
            assert "\x1b[7m" in painted and "\x1b[3m" in painted
            assert [line.rstrip() for line in plain.splitlines()] == screen_of(
                found, width).splitlines()


# -- any record ----------------------------------------------------------------------------------

COUNTS = st.one_of(st.just(0), st.integers(0, 10), st.integers(0, 10**7), st.integers(0, 2**63))
NAMES = st.one_of(st.sampled_from(["scratch", "home", "x" * 300, "日本語" * 30, "a\x1b[2Jb"]),
                  st.text(min_size=1, max_size=40))
OPERATIONS = ("open", "close", "mkdir", "getattr", "unlink", "rename", "statfs", "fsync", "seek",
              "setattr", "create", "symlink")


@st.composite
def deltas(draw, file_system):
    values = {name: draw(COUNTS) for name in draw(st.sets(st.sampled_from(
        ("read_bytes", "write_bytes", "read_calls", "write_calls", "cached_read_bytes",
         *OPERATIONS))))}
    for name in list(values):
        if name in OPERATIONS and draw(st.booleans()):
            values[f"{name}_us"] = draw(COUNTS)
    found = [llite(file_system, **values)._replace(lower_bound=draw(st.booleans()))]
    for number in range(draw(st.integers(0, 7))):
        found.append(osc(f"OST{number:04x}", file_system, read_bytes=draw(COUNTS),
                         write_bytes=draw(COUNTS), write_rpcs=draw(COUNTS))._replace(
                             lower_bound=draw(st.booleans())))
    for number in range(draw(st.integers(0, 7))):
        found.append(md_stats(f"MDT{number:04x}", close=draw(COUNTS), getattr=draw(COUNTS))
                     ._replace(file_system=file_system))
    if draw(st.booleans()):
        found.append(rpc_stats(read_rpcs_pages_256=draw(COUNTS), write_rpcs_pages_1=draw(COUNTS))
                     ._replace(file_system=file_system))
    return found


@st.composite
def jobs(draw):
    file_systems = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    nodes = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    return job(*(of_node(node, [one for name in file_systems for one in draw(deltas(name))],
                         elapsed_s=draw(st.sampled_from([0.0, 1.0, 1867.0, 1e6])))
                 for node in nodes), expected=len(nodes) + draw(st.integers(0, 1)),
               report_units=draw(st.sampled_from(["binary", "decimal", "bytes"])))


@settings(max_examples=examples(120), deadline=None)
@given(jobs(), st.sampled_from([40, 80, 120, 200]), st.booleans(),
       st.sampled_from(["grid", "plain"]))
def test_no_line_is_wider_than_the_screen(found, width, is_ascii, form):
    """Of a terminal; and nothing in them moves its cursor."""
    printed = screen_of(found, width, is_ascii, form=form)
    assert [] == [line for line in printed.splitlines() if measure_width(line) > width]
    assert "\x1b" not in printed


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("found", list(RECORDED.values()), ids=list(RECORDED))
def test_every_part_of_the_schema_fits_the_screen(found, width):
    """Events, phases, the storage servers' numbers, and all that is not known."""
    config = Config()
    printed = screen_of((job_tables.add_labels(written(found), config), config), width)
    assert [] == [line for line in printed.splitlines() if measure_width(line) > width]


@settings(max_examples=examples(60), deadline=None)
@given(st.dictionaries(st.sampled_from(OPERATIONS), st.integers(1, 10**8), min_size=1, max_size=8),
       st.integers(1, 10**8), st.integers(1, 10**8), st.booleans(),
       st.sampled_from([80, 120, 200]))
def test_every_number_that_is_not_0_is_there(counts, reads, writes, is_low, width):
    """Counts of up to nine operations, with their times; reads and writes; each with its mark."""
    values = {**counts, **{f"{name}_us": 1000 * count for name, count in counts.items()}}
    printed = screen_of(job(of_node(deltas=[llite(
        read_bytes=4096 * reads, read_calls=reads, write_bytes=23 * writes, write_calls=writes,
        **values)._replace(lower_bound=is_low)])), width)
    mark = ">= " if is_low else "  "
    for count in (*counts.values(), reads, writes):
        assert re.search(rf"{mark}{count:,}  ", printed)
    assert printed.count("1.00 ms") >= len(counts)
