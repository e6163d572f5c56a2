"""
Ids in job_stats: those of the batch system's jobs, and others.

The id is what jobid_var and jobid_name make of a process (lctl set_param): the job's number from
its environment, or, where a process has none, "cp.0": the program and the user.  Kernel threads
and lost names are there as well.  Those are no jobs, and are counted apart.

    %j  the job         %u  the user's number     %H  host, without its domain
    %e  the program     %g  the group's number    %h  host         %p  the process
    %s  the step of a Slurm job: 0, 1, ..., batch, extern, interactive

Lustre itself has no %s: a site puts job and step into a variable of its own in Slurm's TaskProlog,
and its name into jobid_var.  A step is one of Slurm's reserved numbers where the variable has
SLURM_STEP_ID of a batch script.

Source: jobid_interpret_string(), lustre/obdclass/jobid.c, 2.16; SLURM_BATCH_SCRIPT and so on,
slurm/slurm.h, 26.05.
"""

from __future__ import annotations

import re

_ANY_NUMBER = r"\d+(?:_\d+|\[\d*\])?(?:\.[A-Za-z][\w.-]*)?"
_PARTS = {"j": "", "e": r"[^/]*?", "g": r"\d+", "h": r"[\w.-]*", "H": r"[\w-]*", "p": r"\d+",
          "s": r"\d+|[a-z]+", "u": r"\d+"}
# Parts of a job that a record lists: the record's member, and how the part is written there.
_MEMBERS = {"e": "programs", "s": "steps"}
_STEP_NAMES = {"4294967290": "interactive", "4294967291": "batch", "4294967292": "extern"}
_LONGEST = 31               # LUSTRE_JOBID_SIZE less its NUL: the kernel cuts ids without a mark

UNKNOWN_PART = "(unknown)"


class TagForm:
    """
    The format of job ids in job_stats.

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
        # Parts that stand in one place.
        self._listed = [part for part in _MEMBERS if names.count(part) == 1]
        with_names = expression
        for part in self._listed:
            with_names = with_names.replace(f"(?:{_PARTS[part]})", f"(?P<{part}>{_PARTS[part]})")
        self._match_parts = re.compile(with_names, re.ASCII | re.DOTALL).fullmatch
        self._match = re.compile(expression, re.ASCII).fullmatch
        # The text behind the job's number may be cut off, or in another format.
        before_end = expression[:expression.index(job) + len(job)]
        then = re.escape(pieces[2 * names.index("j") + 2])
        self._match_begin = re.compile(f"{before_end}(?:{then}(?P<rest>.*))?", re.ASCII | re.DOTALL
                                       ).fullmatch if then else None
        self._is_after_others = names.index("j") > 0

    def find_job(self, job_id: str) -> str:
        """
        The job that an id in job_stats is of; "" for none.

        What begins like a job's id up to the end of its number is the job's, whatever follows:
        ids are cut, lack parts, or have the host's domain.

        >>> TagForm("%j").find_job("4711"), TagForm("%j").find_job("cp.0")
        ('4711', '')
        >>> form = TagForm("%j:%u:%H")
        >>> form.find_job("4711:1000:nid00023"), form.find_job("4711:10"), form.find_job("4711")
        ('4711', '4711', '4711')
        """
        match = self._match(job_id) or (self._match_begin(job_id) if self._match_begin else None)
        if match is None or (self._is_after_others and match.end("job") == len(job_id)
                             and len(job_id.encode()) >= _LONGEST):
            return ""                   # none, or its number itself may be cut
        return match["job"]

    def parse_parts(self, job_id: str) -> dict[str, str]:
        """
        Return {"programs": the program, "steps": the step} in the id of a job, as far as the form
        has them; UNKNOWN_PART where the id is cut, or a name is not fit for a terminal.

        >>> TagForm("%j:%e:%u").parse_parts("4711:a.out:1000"), TagForm("%j").parse_parts("4711")
        ({'programs': 'a.out'}, {})
        >>> TagForm("%j.%s").parse_parts("4711.4294967291"), TagForm("%j.%s").parse_parts("4711")
        ({'steps': 'batch'}, {'steps': '(unknown)'})
        """
        if not self._listed:
            return {}
        match = self._match_parts(job_id)
        parts = {}
        for part in self._listed:
            name = match[part] if match is not None else ""
            # A number at the end of an id that may be cut may be another one.
            if part == "s" and match is not None and (
                    match.end(part) == len(job_id) and len(job_id.encode()) >= _LONGEST):
                name = ""
            name = _STEP_NAMES.get(name, name) if part == "s" else name
            parts[_MEMBERS[part]] = name if name and name.isprintable() else UNKNOWN_PART
        return parts
