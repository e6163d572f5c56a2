"""
A PBS hook: every job is measured, on each of its nodes, from its prologue to its epilogue.

    qmgr -c 'create hook iostats event="execjob_prologue,execjob_epilogue", alarm=5'
    qmgr -c 'import hook iostats application/x-python default pbs_hook.py'

It runs as root (user=pbsadmin) on each host of the job.  No job waits for it longer than WITHIN_S,
and none is rejected, whatever happens here: what went wrong stands in the MoM's log.  PBS with
Python 3 (2020 and later).

Source: pbs_hook_attributes(7B), pbs_job_attributes(7B), PBS Professional Hooks Guide.
"""

import os
import subprocess

# where iostats_client.py lies
HOME = os.environ.get("IOSTATS_HOME") or "/usr/local/lib/iostats"
PYTHON = os.environ.get("IOSTATS_PYTHON") or "/usr/bin/python3"
WITHIN_S = 1.0
LONGEST = 100000                # of one argument; Linux takes 128 KiB


def run(pbs):
    """Call the client for the event that has come; never an exception, never a rejection."""
    try:
        event = pbs.event()
        role = {pbs.EXECJOB_PROLOGUE: "prolog", pbs.EXECJOB_EPILOGUE: "epilog"}.get(event.type)
        if role:
            call(role, event.job, pbs)
    except Exception as error:
        try:
            pbs.logmsg(pbs.EVENT_DEBUG, "iostats: %s" % error)
        except Exception:
            pass


def call(role, job, pbs):
    """One run of the client, with a time limit."""
    about = {"--job": job.id, "--user": getattr(job, "euser", None), "--node": this_node(pbs),
             "--nodes": hosts(getattr(job, "exec_host", None)),
             "--attempt": restarts(getattr(job, "run_count", None))}
    command = [PYTHON, "-I", "-S", os.path.join(HOME, "iostats_client.py"), role]
    for option, value in about.items():
        if value not in (None, "") and len(str(value)) <= LONGEST:
            command += [option, str(value)]
    # Nothing of the MoM's environment; these tell the client the rest.
    environ = {"PATH": "/usr/bin:/bin", "PBS_JOBID": str(job.id)}
    for variable, attribute in (("PBS_QUEUE", "queue"), ("PBS_ACCOUNT", "Account_Name")):
        value = getattr(job, attribute, None)
        if value not in (None, ""):
            environ[variable] = str(getattr(value, "name", value))
    with open(os.devnull, "r+b") as nothing:
        try:
            subprocess.run(command + ["--never-fail", "--quiet"], stdin=nothing, stdout=nothing,
                           stderr=nothing, env=environ, cwd="/", timeout=WITHIN_S)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError("%s: not done within %g s" % (role, WITHIN_S)) from error


def hosts(exec_host):
    """a,b,c of "a/0*64+b/0*64+c/0"."""
    names = [part.partition("/")[0] for part in str(exec_host or "").split("+")]
    return ",".join(dict.fromkeys(name for name in names if name))


def restarts(run_count):
    """The server counts a run before it sends the job to its nodes: 1 in the first."""
    return max(0, int(run_count) - 1) if run_count is not None else None


def this_node(pbs):
    """This host, as exec_host has it; None where PBS does not say."""
    name = getattr(pbs, "get_local_nodename", None)
    return name() if name else None


try:
    import pbs
except ImportError:                     # read by somebody else than PBS
    pbs = None
if pbs is not None:
    run(pbs)
