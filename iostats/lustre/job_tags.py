"""
Which ids in job_stats are jobs of the batch system, and which are not.

The id is what jobid_var and jobid_name make of a process (lctl set_param): the job's number from
its environment, or, where a process has none, "cp.0": the program and the user.  Kernel threads
and lost names are there as well.  Those are no jobs, and are kept apart.

    %j  the job         %u  the user's number     %H  host, without its domain
    %e  the program     %g  the group's number    %h  host         %p  the process

Source: jobid_interpret_string(), lustre/obdclass/jobid.c, 2.16.
"""

from __future__ import annotations

import re

_ANY_NUMBER = r"\d+(?:_\d+|\[\d*\])?(?:\.[A-Za-z][\w.-]*)?"
_PARTS = {"j": "", "e": r"[^/]*?", "g": r"\d+", "h": r"[\w.-]*", "H": r"[\w-]*", "p": r"\d+",
          "u": r"\d+"}
_LONGEST = 31               # LUSTRE_JOBID_SIZE less its NUL: the kernel cuts ids without a mark


class TagForm:
    """
    How the ids of jobs look.

    `text`: as jobid_name has it, with one %j; ValueError.  `job_form`: regular expression of the
    batch system's ids (JOB_ID_FORM in schedulers/); "" for any number, with what PBS and arrays put
    behind it.
    """

    def __init__(self, text: str = "%j", job_form: str = "") -> None:
        pieces = re.split(r"%(.)", text)
        names = pieces[1::2]
        if names.count("j") != 1 or not set(names) <= set(_PARTS):
            raise ValueError(f"expected a form such as %j or %j:%u:%H with one %j, got {text!r}")
        job = f"(?P<job>{job_form or _ANY_NUMBER})"
        expression = "".join(re.escape(piece) if number % 2 == 0 else
                             job if piece == "j" else f"(?:{_PARTS[piece]})"
                             for number, piece in enumerate(pieces))
        self._match = re.compile(expression, re.ASCII).fullmatch
        # What stands behind the job's number may be cut off.
        before_end = expression[:expression.index(job) + len(job)]
        self._match_cut = re.compile(before_end + r"(?P<rest>.*)", re.ASCII | re.DOTALL).fullmatch
        self._then = next(iter(re.split(r"%.", text.partition("%j")[2])), "")

    def job_of(self, job_id: str) -> str:
        """
        The job that an id in job_stats is of; "" for none.

        >>> TagForm("%j").job_of("4711"), TagForm("%j").job_of("cp.0")
        ('4711', '')
        >>> TagForm("%j:%u:%H").job_of("4711:1000:nid00023")
        '4711'
        """
        found = self._match(job_id)
        if found is None and self._then and len(job_id.encode()) >= _LONGEST:
            found = self._match_cut(job_id)
            if found is not None and not found["rest"].startswith(self._then):
                found = None
        return found["job"] if found is not None else ""
