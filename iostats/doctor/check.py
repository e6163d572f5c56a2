"""
A line of the doctor: what was examined, its state, and a command that fixes it or shows more.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

OK, NOTE, PROBLEM = "ok", "note", "problem"

Check = namedtuple("Check", "state name text fix", defaults=("",))
Check.__doc__ = """
One line of the doctor.

Attributes:
    state: OK, NOTE or PROBLEM.
    name: what was looked at.
    text: what was found where.
    fix: a command that fixes it, or one of ONLY_SHOW that shows more; "" where there is none.
"""

# The beginnings of commands that change nothing: they are printed as "check:", not as "fix:".
ONLY_SHOW = ("ping ", "ss ", "df ", "du ", "cat ", "etcdctl endpoint ", "lctl ping ",
             "lctl get_param ", "iostats config", "iostats events ", "iostats doctor",
             "iostats_client.py doctor", "iostats_client.py show ",
             "iostats_client.py harvest --list")
_PREFIXES = ("sudo ", "nsenter -t 1 -m ")  # before any of these commands


def only_shows(command: str) -> bool:
    """
    Whether a command of the doctor shows more and fixes nothing.

    >>> only_shows("ping -c 3 mgmt1"), only_shows("ssh mgmt1 'ss -ltnp sport = :8022'")
    (True, True)
    >>> only_shows("ssh mgmt1 'systemctl start iostats-site.service'")
    False
    """
    if command.startswith("ssh "):
        command = command.split(" ", 2)[-1].strip("'")
    for prefix in _PREFIXES:
        command = command.removeprefix(prefix)
    return command.startswith(ONLY_SHOW)


def quoted(path: str) -> str:
    """`path` as a shell takes it."""
    safe = all(c.isalnum() or c in "/._-+=:,@%~" for c in path)
    return path if safe else "'" + path.replace("'", "'\\''") + "'"


def as_text(checks: Iterable[Check]) -> str:
    """A line for each check."""
    return "".join(f"{check.state:<8} {check.name}: {check.text}" + (
        f"; {'check' if only_shows(check.fix) else 'fix'}: {check.fix}" if check.fix else "") + "\n"
                   for check in checks)


def as_json(checks: Iterable[Check]) -> dict[str, Any]:
    """
    {problems, checks} for `--json`.  A command that fixes the problem is `fix`, one that only shows
    more is `check`; `mend` has either of them, for programs written for earlier releases.
    """
    checks = list(checks)
    return {"problems": sum(check.state == PROBLEM for check in checks),
            "checks": [{**check._asdict(), "fix": "" if only_shows(check.fix) else check.fix,
                        "check": check.fix if only_shows(check.fix) else "", "mend": check.fix}
                       for check in checks]}
