"""
A scheduler is one file: here one is added to a copy of the package, and every command knows it.
"""
from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from added_file import copy_with
from processes import BEFORE, Desk

A_SCHEDULER = '''\
"""
Cobalt, as a site might add it.

Source: qsub(1) of Cobalt.
"""

from iostats.base.job_facts import RUNNING, Facts
from iostats.schedulers import commands, job_environment

NAME = "cobalt"
JOB_ID_VARIABLE = "COBALT_ID"
JOB_ID_FORM = r"C[0-9]+"
COMMAND, COMMAND_RANK = "cqstat", 5
NO_LAUNCH_AT_END = False
LAUNCHES_BY_SHELL = False
NODE_LIST_VARIABLE = "COBALT_PARTS"
ON_EACH_NODE = "cobalt-run"
CGROUPS = ("cobalt.service/{job}",)


def about(environ):
    return job_environment.drop_unknown(
        job=job_environment.find_job(environ, JOB_ID_VARIABLE),
        nodes=job_environment.get_variable(environ, NODE_LIST_VARIABLE),
        user=job_environment.get_variable(environ, "COBALT_USER"))


def launchers(environ, nodes):
    return [["cobalt-run", "--"]] if len(job_environment.parse_node_names(nodes)) > 1 else [[]]


def facts(jobs, run=None):
    _, text, _ = commands.ask(["cqstat", *commands.check_ids(jobs)], run)
    return {job: Facts(job, job, RUNNING, user="alice") for job in text.split()}


def facts_source(run=None):
    return "cqstat"
'''
IN_A_JOB = {"COBALT_ID": "C4711", "COBALT_PARTS": "nid[00023-00025]", "COBALT_USER": "alice"}


@pytest.fixture
def desk(tmp_path):
    """A user's desk, whose client is a copy of ours with one more file."""
    copy = copy_with(tmp_path / "copy", "schedulers/cobalt.py", A_SCHEDULER)
    with Desk(tmp_path) as one:
        one.tree(**BEFORE)
        one.other = copy / "iostats_client.py"
        yield one


def client(desk, *arguments, env=None):
    """A command of the copy, in a job of the new batch system."""
    return desk.client(*arguments, "--root", desk.directory / "node", job=False, script=desk.other,
                       env={**IN_A_JOB, **(env or {})})


def files(directory):
    return sorted(path.name for path in directory.iterdir())


def test_start_finds_the_jobs_id(desk):
    """Nothing in site.cfg names the new variable."""
    done = client(desk, "start", "--node", "nid00023", "--state-dir", desk.state)
    assert (0, "") == (done.status, done.err)
    assert ["C4711%20nid00023.start"] == files(desk.state)


def test_an_epilog_reports_the_job_its_nodes_and_the_others_on_its_node(desk):
    """One other that had a cgroup at the start, and one that had one at the end."""
    cgroups = desk.directory / "node/sys/fs/cgroup/cobalt.service"
    config = desk.directory / "site.cfg"
    config.write_text(f"[node]\nhook_dir = {desk.directory}/hooks\n"
                      "[site]\nhost = 127.0.0.1\nport = 1\n")
    for role, jobs in (("prolog", ("C4711", "C4713")), ("epilog", ("C4711", "C4717"))):
        shutil.rmtree(cgroups, ignore_errors=True)
        for job in jobs:
            (cgroups / job).mkdir(parents=True)
        done = client(desk, role, "--node", "nid00023", "--config", config)
        assert 0 == done.status
    [kept] = (desk.directory / "hooks").glob("*.delta")
    report = json.loads(kept.read_text())
    assert ("C4711", 2) == (report["job"], report["other_jobs"])
    assert {"scheduler": "cobalt", "nodes": "nid[00023-00025]", "user": "alice",
            "attempt": 0} == report["about"]


def test_the_doctor_has_its_lines(desk):
    """The job, the node list, and where facts come from."""
    bin_ = desk.directory / "bin"
    bin_.mkdir()
    (bin_ / "cqstat").write_text("#!/bin/sh\necho C4711\n")
    (bin_ / "cqstat").chmod(0o755)
    path = {"PATH": f"{bin_}:/usr/bin:/bin"}
    done = client(desk, "doctor", "--node", "nid00023", env=path)
    for line in ("ok       job: C4711, from cobalt",
                 "ok       node: nid00023, one of 3 in COBALT_PARTS",
                 "ok       batch system: cobalt; job facts come from cqstat"):
        assert line in done.out.splitlines(), done
    done = client(desk, "doctor", "--node", "nid00037", env=path)
    assert ("problem  node: nid00037 is not in COBALT_PARTS: nid[00023-00025]\n"
            "         fix: cobalt-run iostats_client.py doctor\n") in done.out, done


def test_the_servers_side_knows_it(desk):
    """The nodes it expects, ids in job_stats, facts, and the list in an error's line."""
    code = """if True:
        import os, subprocess, sys
        sys.path.insert(0, sys.argv[1])
        from iostats import schedulers
        from iostats.base.errors import IostatsError
        from iostats.cli.server import parse_expected_nodes
        from iostats.lustre.job_tags import TagForm
        print(sorted(parse_expected_nodes(None, 100)))
        find_job = TagForm("%j", schedulers.describe_job_id_form("cobalt")).find_job
        print([find_job("C4711"), find_job("4711"), find_job("cp.0")])
        run = lambda argv: subprocess.CompletedProcess(argv, 0, "C4711", "")
        print(schedulers.detect_scheduler(os.environ).facts(["C4711"], run)["C4711"].user)
        try:
            schedulers.find_scheduler("slrum")
        except IostatsError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code, str(desk.other.parent)], text=True,
                          env=desk.environment(IN_A_JOB), capture_output=True, check=False)
    assert "" == done.stderr
    assert ["['nid00023', 'nid00024', 'nid00025']", "['C4711', '', '']", "alice",
            "no batch system 'slrum'; there are: cobalt, flux, lsf, none, pbs, sge, slurm"
            ] == done.stdout.splitlines()
