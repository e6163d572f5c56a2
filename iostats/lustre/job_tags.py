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
        # What stands behind the job's number may be cut off, or of another form.
        before_end = expression[:expression.index(job) + len(job)]
        then = re.escape(pieces[2 * names.index("j") + 2])
        self._match_begin = re.compile(f"{before_end}(?:{then}(?P<rest>.*))?", re.ASCII | re.DOTALL
                                       ).fullmatch if then else None
        self._is_after_others = names.index("j") > 0

    def job_of(self, job_id: str) -> str:
        """
        The job that an id in job_stats is of; "" for none.

        What begins like a job's id up to the end of its number is the job's, whatever follows:
        ids are cut, lack parts, or have the host's domain.

        >>> TagForm("%j").job_of("4711"), TagForm("%j").job_of("cp.0")
        ('4711', '')
        >>> form = TagForm("%j:%u:%H")
        >>> form.job_of("4711:1000:nid00023"), form.job_of("4711:10"), form.job_of("4711")
        ('4711', '4711', '4711')
        """
        found = self._match(job_id) or (self._match_begin(job_id) if self._match_begin else None)
        if found is None or (self._is_after_others and found.end("job") == len(job_id)
                             and len(job_id.encode()) >= _LONGEST):
            return ""                   # none, or its number itself may be cut
        return found["job"]
