"""
[site] show = comment gives every user every job's numbers, unless Slurm hides jobs: who switches it
on is told by the site's server and by the doctor.
"""
from __future__ import annotations

import subprocess

import pytest
from processes import until
from site_desk import SiteDesk, script

from iostats import schedulers
from iostats.base import config

PUBLIC = "[site] show = comment: every user can read by sacct what every job did"
WHERE = "PrivateData=jobs in slurm.conf and in slurmdbd.conf"


def told(*values, status=0):
    """A `run` in which sacctmgr prints these values, of slurm.conf and of slurmdbd.conf."""
    text = "".join(f"Configuration data\nPrivateData            = {value}\n" for value in values)
    return lambda argv: subprocess.CompletedProcess(argv, status, text, "")


@pytest.mark.parametrize("run, expected", [
    (told("none", "none"), (False, f"{PUBLIC}: there is no {WHERE}")),
    (told("jobs", "none"), (False, f"{PUBLIC}: there is no {WHERE}")),
    (told("accounts,jobs", "jobs"),
     (True, f"[site] show = comment: users see only those of their own jobs ({WHERE})")),
    (told(status=1), (False, f"{PUBLIC}, unless there is {WHERE}")),
], ids=["nothing hidden", "one of two", "hidden", "nobody tells"])
def test_who_reads_comments(run, expected):
    """Both count: squeue and scontrol go by the one, sacct by the other."""
    choices = config.Config()
    choices.set_value("site.show", "output comment", "site.cfg:23")
    assert expected == schedulers.find_comment_readers(choices, run)
    choices.set_value("site.show", "output", "site.cfg:23")
    assert (True, "") == schedulers.find_comment_readers(choices, run)


def test_the_server_and_the_doctor_say_so(tmp_path):
    """The server when it begins, the doctor on each host that has this site.cfg."""
    with SiteDesk(tmp_path) as desk:
        script(desk.bin / "sacctmgr", "#!/bin/sh\necho 'PrivateData = none'\n")
        desk.configure(site_show="comment")
        server = desk.site()
        line = f"{PUBLIC}: there is no {WHERE}"
        until(lambda: line in server.err, what="the line")
        done = desk.bare("doctor", "--root", tmp_path, "--config", desk.cfg)
        assert f"comments: {line}" in " ".join(done.out.split()), done.out
