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
    ("%j.%s", "slurm", "4711.0", "4711"),
    ("%j.%s", "slurm", "4711.batch", "4711"),
    ("%j.%s", "slurm", "4711.", "4711"),
    ("%j.%s", "slurm", "4711", "4711"),
    ("%j.%s", "slurm", "cp.0", ""),
    ("%j.%s", "", "4711.extern", "4711"),
    ("%j.%s", "pbs", "4711.pbs01", "4711.pbs01"),
], ids=repr)
def test_the_job_of_an_id(text, scheduler, job_id, expected):
    assert expected == TagForm(text, schedulers.describe_job_id_form(scheduler)).find_job(job_id)


@pytest.mark.parametrize("text, job_id, step", [
    ("%j.%s", "4711.0", "0"),
    ("%j.%s", "4711.23", "23"),
    ("%j.%s", "4711.batch", "batch"),
    ("%j.%s", "4711.4294967290", "interactive"),
    ("%j.%s", "4711.4294967291", "batch"),
    ("%j.%s", "4711.4294967292", "extern"),
    ("%j.%s", "4711", "(unknown)"),
    ("%j.%s", "4711.", "(unknown)"),
    ("%j.%s", "4711.2 3", "(unknown)"),
    ("%j_%s:%h", "4711_23:nid00041", "23"),
    # The kernel cuts after 31 bytes: step 2 may be 23.
    ("%h:%j.%s", "a-very-very-long-node-na:4711.2", "(unknown)"),
    ("%h:%j.%s", "a-very-very-long-node-n:4711.2", "2"),
], ids=repr)
def test_the_step_of_an_id(text, job_id, step):
    assert {"steps": step} == TagForm(text,
                                      schedulers.describe_job_id_form("slurm")).parse_parts(job_id)


def test_step_and_program_of_an_id():
    assert {"steps": "23", "programs": "a.out"} == TagForm("%j.%s:%e").parse_parts("4711.23:a.out")


@pytest.mark.parametrize("text, job_id, program", [
    ("%j", "4711", ""),
    ("%j:%u", "4711:1000", ""),
    ("%j:%e:%u", "4711:a.out:1000", "a.out"),
    ("%j:%e:%u", "4711:kworker/13:1000", "(unknown)"),
    ("%j:%e:%u", "4711", "(unknown)"),
    ("%j:%e:%u", "4711:averyverylongprogramname12", "(unknown)"),
    ("%j:%e", "4711:python3.11", "python3.11"),
    ("%e.%u.%j", "a.out.1000.4711", "a.out"),
    ("%j:%e:%u", "4711:\x1b[31m:1000", "(unknown)"),
], ids=repr)
def test_the_program_of_an_id(text, job_id, program):
    assert ({"programs": program} if program else {}) == TagForm(text).parse_parts(job_id)


@pytest.mark.parametrize("text", ["", "4711", "%e.%u", "%j%j", "%j.%x", "%"])
def test_a_form_without_exactly_one_job_is_refused(text):
    with pytest.raises(ValueError, match="with one %j"):
        TagForm(text)


@given(st.text(max_size=128), st.sampled_from(["%j", "%j:%u:%H", "%e.%u.%j", "x%j", "%j.%s"]),
       st.sampled_from(["slurm", "pbs", "lsf", "sge", "flux", ""]))
def test_any_id_is_a_job_or_none_and_a_job_stands_in_its_id(job_id, text, scheduler):
    job = TagForm(text, schedulers.describe_job_id_form(scheduler)).find_job(job_id)
    assert job in job_id
    assert "" == job or job.isprintable()
