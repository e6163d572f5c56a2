"""
The page for Prometheus: which jobs are on it, and that any name stands there as it is.
"""
from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from sink_desk import Site

from iostats.sinks.prometheus import page
from iostats.sinks.prometheus.metrics_server import format_page

MDT0, NOON = ("scratch", "MDT0000"), 1_795_176_000


def amounts_of(most, *sweeps_entries):
    """Amounts of up to `most` jobs, after these sweeps."""
    site, amounts = Site(NOON), page.Amounts(most, False)
    site.find_job = lambda job_id: job_id
    for entries in sweeps_entries:
        for _ in amounts.tally.walk(site.sweep(entries), site):
            pass
        amounts.choose()
    return amounts


def test_a_page_has_the_busiest_jobs_and_the_sum_of_the_others():
    """Of the others what they gained since the first sweep."""
    amounts = amounts_of(1, {MDT0: {"4711": {"open": 37}, "4713": {"open": 23}}},
                         {MDT0: {"4711": {"open": 1023}, "4713": {"open": 41}}})
    assert (2, {"4711"}) == (amounts.jobs, amounts.shown)
    assert {"4711": {"open": (1023, 0)}, "(others)": {"open": [18, 0]}} == {
        jobid: counters for _, jobid, counters, _ in amounts.rows() if any(counters.values())
        and jobid != "(unattributed)"}


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=128))
@example('a"b\\c\nd')
@example("4[3].pbs-01, x=7 \u2603")
def test_every_id_is_one_label_that_can_be_read_back(job):
    """By prometheus_client's own reader; no id breaks the page or is another's."""
    from prometheus_client.parser import text_string_to_metric_families
    amounts = amounts_of(10, {MDT0: {job: {"open": 23}}})
    text = format_page(page.make_job_families(amounts, {})).decode()
    [sample] = [sample for family in text_string_to_metric_families(text)
                for sample in family.samples if sample.name == "lustre_job_stats_total"]
    expected = job.encode("utf-8", "backslashreplace").decode()
    assert (expected, 23) == (sample.labels["jobid"], sample.value)
