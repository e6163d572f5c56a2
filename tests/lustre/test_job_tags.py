"""
Which ids in job_stats are jobs.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats import schedulers
from iostats.lustre.job_tags import TagForm


@pytest.mark.parametrize("text, scheduler, job_id, expected", [
    ("%j", "slurm", "4711", "4711"),
    ("%j", "slurm", "cp.0", ""),
    ("%j", "slurm", "rsync.1000", ""),
    ("%j", "slurm", "kworker/13:2.0", ""),
    ("%j", "slurm", "", ""),
    ("%j", "slurm", "0", ""),
    ("%j", "slurm", "4711.0", ""),
    ("%j", "slurm", "\u0664\u0667", ""),
    ("%j", "pbs", "4711.pbs01", "4711.pbs01"),
    ("%j", "pbs", "4711[3].pbs01", "4711[3].pbs01"),
    ("%j", "pbs", "dd.0", ""),
    ("%j", "pbs", "4711.1000", ""),
    ("%j", "lsf", "4711[37]", "4711[37]"),
    ("%j", "flux", "\u0192U7gvQxt", "\u0192U7gvQxt"),
    ("%j", "flux", "fio.0", ""),
    ("%j", "", "4711", "4711"),
    ("%j", "", "cp.0", ""),
    ("%j:%u:%H", "slurm", "4711:1000:nid00023", "4711"),
    ("%j:%u:%H", "slurm", ":988:ds88", ""),
    ("%j:%u:%H", "slurm", "4711:1000", "4711"),
    ("%j:%u:%H", "slurm", "4711:1000:", "4711"),
    ("%j:%u:%H", "slurm", "4711:", "4711"),
    ("%j:%u:%H", "slurm", "4711", "4711"),
    ("%j:%u:%H", "slurm", "4711:1000:nid00023.hpc", "4711"),
    ("%j:%u:%H", "slurm", ":1000:nid00023.hpc", ""),
    ("%j:%u:%H", "slurm", ":711:1000:nid00023", ""),
    ("%j:%u:%H", "slurm", "47119", "47119"),
    ("%j:%u:%H", "slurm", "4711-1000", ""),
    ("%j:%u:%H", "slurm", "bash.1000", ""),
    ("%j:%u:%H", "pbs", "4711[3].pbs01:1000", "4711[3].pbs01"),
    ("SLURM_JOB%j:%u:%h", "slurm", "SLURM_JOB10:0:es18kxe-co-client", "10"),
    ("SLURM_JOB%j:%u:%h", "slurm", "SLURM_JOB10:0:es18kxe-co-clien.", "10"),
    ("%e.%u.%j", "slurm", "a.out.1000.4711", "4711"),
    ("%j:%e:%u", "slurm", "4711:averyverylongprogramname1", "4711"),
    ("%j:%e:%u", "slurm", "4711:averyverylongprogramname12", "4711"),
    ("%e.%j.%u", "slurm", "averyverylongprogram1.4711.1000", "4711"),
    ("%e.%j.%u", "slurm", "averyverylongprogramname1.4711.", "4711"),
    ("%e.%j.%u", "slurm", "averyverylongprogramname12.4711", ""),
    ("%e.%u.%j", "slurm", "averyverylongprogram1.1000.4711", ""),
], ids=repr)
def test_the_job_of_an_id(text, scheduler, job_id, expected):
    assert expected == TagForm(text, schedulers.job_id_form(scheduler)).job_of(job_id)


@pytest.mark.parametrize("text", ["", "4711", "%e.%u", "%j%j", "%j.%x", "%"])
def test_a_form_without_exactly_one_job_is_refused(text):
    with pytest.raises(ValueError, match="with one %j"):
        TagForm(text)


@given(st.text(max_size=128), st.sampled_from(["%j", "%j:%u:%H", "%e.%u.%j", "x%j"]),
       st.sampled_from(["slurm", "pbs", "lsf", "sge", "flux", ""]))
def test_any_id_is_a_job_or_none_and_a_job_stands_in_its_id(job_id, text, scheduler):
    job = TagForm(text, schedulers.job_id_form(scheduler)).job_of(job_id)
    assert job in job_id
    assert "" == job or job.isprintable()
