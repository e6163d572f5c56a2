"""
Random jobs, and records of them in which something is missing, uncounted, thrown away or another
job's: a rule that holds for the record holds for the truth.
"""

import re

from examples import examples
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from test_job_totals import llite, osc
from trees import report as of_node

from iostats.base.config import Config
from iostats.report.findings.known_io import list_sides
from iostats.report.findings.rule import Limits
from iostats.report.findings.rules import OF_FILE_SYSTEMS
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals

# Thresholds that small random numbers are on both sides of.
CONFIG = Config()
for key, value in {
        "from_seconds": 1, "from_bytes": 0, "from_operations": 20, "large_bytes": 400,
        "small_bytes": 30, "metadata_storm_per_second": 50, "untimed_per_second": 1}.items():
    CONFIG.set_value(f"findings.{key}", str(value), "the test")

COUNTS = st.sampled_from([0, 1, 7, 23, 37, 100, 1000])
BYTES = st.sampled_from([0, 1, 23, 370, 1000, 4100, 100_000])
SECONDS = st.sampled_from([0, 100_000, 1_000_000, 7_000_000])           # us
# (its mark, a number with its unit) in a finding.
NUMBER = re.compile(r"(>= |~ |up to )?(?<!\w)(\d[\d,.]*(?: %| bytes| [KMGT]iB| [mu]?s)?)")
OPERATIONS = ("open", "close", "getattr", "unlink", "rmdir", "flock", "mkdir", "fsync",
              "page_mkwrite", "seek")


@st.composite
def true_nodes(draw):
    """[(llite's values, [its other deltas], seconds)] of one to five nodes."""
    found = []
    is_timed, osts = draw(st.booleans()), draw(st.sampled_from([2, 8]))
    for _ in range(draw(st.integers(1, 3) | st.integers(4, 5))):
        values = {name: draw(COUNTS) for name in OPERATIONS}
        values["openclosetime"] = draw(st.integers(0, values["open"]))
        for way in ("read", "write"):
            calls = draw(COUNTS)
            values.update({f"{way}_calls": calls, f"{way}_bytes": draw(BYTES) if calls else 0})
            if is_timed:
                values.update({way: calls, f"{way}_us": draw(SECONDS)})
        if is_timed:
            values.update((f"{name}_us", draw(SECONDS)) for name in OPERATIONS)
        others = [osc(f"OST{number:04}", read_bytes=draw(BYTES), read_rpcs=draw(COUNTS),
                      write_bytes=draw(BYTES), write_rpcs=draw(COUNTS),
                      ldlm_extent_enqueue=draw(COUNTS)) for number in range(osts)]
        others += [Delta("md_stats", "scratch", f"MDT{number:04}", "ff9a",
                         {"getattr": draw(COUNTS)}, False, "") for number in range(2)]
        found.append((values, others, draw(st.sampled_from([1.0, 7.0, 23.0]))))
    return found


@st.composite
def records(draw):
    """(the truth, what the report has of it)."""
    nodes = draw(true_nodes())
    seen, whole = Totals("4711", len(nodes)), Totals("4711", len(nodes))
    kept, cpus = draw(st.integers(1, len(nodes))), draw(st.sampled_from([0, 0, 3, 100]))
    for number, (true, others, elapsed_s) in enumerate(nodes):
        name, values = f"nid{number:05}", dict(true)
        whole.add(of_node(name, [llite(**values), *others], elapsed_s=elapsed_s, cpus=cpus))
        if number >= kept:
            continue                                            # it has not reported
        what = draw(st.sampled_from(["exact", "low", "uncounted", "shared", "evicted", "unread"]))
        deltas, more = others, {}
        if what == "low":                                       # its counters were cleared
            values = {metric: draw(st.integers(0, value)) for metric, value in values.items()}
            deltas = [one._replace(lower_bound=True, values={
                metric: draw(st.integers(0, value)) for metric, value in one.values.items()})
                for one in others]
        elif what == "uncounted" and values["write_calls"]:
            missing = draw(st.integers(0, values["write_bytes"]))
            values.update(write_bytes=values["write_bytes"] - missing,
                          uncounted_write_calls=1, uncounted_write_bytes=missing + draw(BYTES))
        elif what == "shared":                                  # another job was on the node, too
            more["other_jobs"] = 1
            values = {metric: value + draw(st.integers(0, 3) if metric.endswith("_us") else COUNTS)
                      for metric, value in values.items()}
            deltas = [one._replace(values={metric: value + draw(COUNTS)
                                           for metric, value in one.values.items()})
                      for one in others]
        elif what == "evicted" and values["write_calls"]:       # some of it was thrown away
            values.update(write_bytes=values["write_bytes"] + draw(BYTES), evictions=1)
        elif what == "unread":
            deltas = [one._replace(values=None, lower_bound=True, why="permission denied")
                      for one in others]
        seen.add(of_node(name, [llite(lower_bound=what == "low", **values), *deltas],
                         elapsed_s=elapsed_s, cpus=cpus, **more))
    return whole.record(), seen.record()


def holding(record):
    """{id: number} of the rules that hold for the job's only file system, by what the nodes say."""
    [known] = list_sides(record)["scratch"]
    return {rule.id: held.number for rule in OF_FILE_SYSTEMS
            for held in [rule.when(known, Limits(CONFIG))] if held}


@settings(max_examples=examples(500), deadline=None)
@given(records())
def test_a_rule_that_holds_for_the_record_holds_for_the_truth(both):
    """Whatever is not known of it; and each number is the true one unless it bears a mark."""
    truth, seen = map(holding, both)
    assert set() == set(seen) - set(truth)
    for rule, text in seen.items():
        # Of nodes that have not reported another one may be the busiest.
        if NUMBER.sub("#", text) == NUMBER.sub("#", truth[rule]):
            for (mark, number), (_, true) in zip(NUMBER.findall(text), NUMBER.findall(truth[rule])):
                assert mark or number == true, f"{text}; {truth[rule]}"


def test_the_random_jobs_try_each_rule():
    """Of whole records and of others; else the test above could not fail."""
    sure, unsure = set(), set()

    def collect(both):
        truth, seen = both
        sure.update(holding(truth))
        if truth != seen:
            unsure.update(holding(seen))
    every = {rule.id for rule in OF_FILE_SYSTEMS} - {"polling", "slow_servers"}
    rare = {"random_reads", "cache_served", "few_osts", "lock_contention", "slow_metadata",
            "slow_nodes"}
    # These two try each rule; after other rules they may not.
    for number in (33, 40, *range(20)):
        if every != sure or not every - unsure <= rare:
            seed(number)(settings(max_examples=examples(400))(
                given(records())(collect)))()
    assert every == sure
    assert every - unsure <= rare
