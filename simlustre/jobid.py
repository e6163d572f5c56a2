"""
The job id that a Lustre client gives to what a process asks for, as lustre_get_jobid() makes it.

    jobid_var        of a process in job 4711 of user 1009 that runs dd
    disable          ""
    procname_uid     dd.1009
    nodelocal        jobid_name
    anything else    4711: that variable of its environment; without it jobid_name

jobid_name has %e command, %g gid, %h host, %H its first part, %j the variable's value (`%j?%h`: or
else, since 2.16), %p pid, %u uid, and since 2.17 a width as in %.3e; up to 2.11 it is plain text,
for nodelocal alone.  The environment is that of the process's start.  Nothing is cached, and
jobid_this_session (`session`) is not simulated.

Source: lustre/obdclass/jobid.c, 2.12 to 2.17; lustre/obdclass/class_obd.c of 2.10.
"""
from __future__ import annotations

from dataclasses import dataclass

from .target import MOST_OF_JOB_ID

DEFAULT_NAME = "%e.%u"


@dataclass
class JobIds:
    """
    The settings of one node.

    Attributes:
        var, name: jobid_var and jobid_name.
        host: the node's name.
        release: "2.15" and so on.
    """

    var: str = "SLURM_JOB_ID"
    name: str = DEFAULT_NAME
    host: str = "node1"
    release: str = "2.15"

    def of_process(self, uid: int, gid: int, pid: int) -> str:
        """Its job id, each byte as a character of Latin-1; pid 0: the kernel, or it has gone."""
        value = ""
        old = self.release == "2.10"
        if self.var == "disable":
            return ""
        if self.var == "procname_uid":
            value = self._expanded(DEFAULT_NAME, uid, gid, pid)
        elif self.var == "nodelocal":
            value = self.name if old else self._expanded(self.name, uid, gid, pid)
        else:
            if old or "%j" not in self.name:
                value = variable(pid, self.var)
            if old and len(value) > MOST_OF_JOB_ID:
                value = ""                          # EOVERFLOW
            if not value and not old:
                value = self._expanded(self.name, uid, gid, pid)
        return value[:MOST_OF_JOB_ID]

    def _expanded(self, form: str, uid: int, gid: int, pid: int) -> str:
        said, at = "", 0
        while at < len(form):
            letter, at = form[at], at + 1
            if letter.isspace():
                continue
            if letter != "%":
                said += letter
                continue
            width = None
            if form[at:at + 1] == "." and self.release == "2.17":
                end = at + 1
                while form[end:end + 1].isdigit():
                    end += 1
                width, at = int(form[at + 1:end] or 0) or None, end
            what, at = form[at:at + 1], at + 1
            part = {"e": lambda: command(pid), "g": lambda: str(gid), "h": lambda: self.host,
                    "H": lambda: self.host.partition(".")[0],
                    "j": lambda: variable(pid, self.var), "p": lambda: str(pid),
                    "u": lambda: str(uid)}.get(what, lambda: "")()
            if what == "H" and self.release == "2.12":
                part = ""
            said += part[:width]
            if what == "j" and form[at:at + 1] == "?" and self.release in ("2.16", "2.17"):
                at += 3 if part else 1
        return said


def variable(pid: int, name: str) -> str:
    """Of the environment that the process was started with; "" for none."""
    try:
        with open(f"/proc/{pid}/environ", encoding="latin-1", newline="") as file:
            found = [one for one in file.read().split("\0") if one.startswith(name + "=")]
    except OSError:
        found = []
    return found[0].partition("=")[2] if found else ""


def command(pid: int) -> str:
    """Its name, as /proc has it."""
    try:
        with open(f"/proc/{pid}/comm", encoding="latin-1", newline="") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""
