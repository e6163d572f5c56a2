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

# How commands begin that change nothing: they are printed as "check:", not as "fix:".
ONLY_SHOW = ("ping ", "ss ", "df ", "du ", "cat ", "etcdctl endpoint ", "lctl ping ",
             "lctl get_param ", "iostats config", "iostats events ", "iostats doctor",
             "iostats_client.py doctor", "iostats_client.py show ",
             "iostats_client.py harvest --list")
_WAYS = ("sudo ", "nsenter -t 1 -m ")      # to run them


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
    for way in _WAYS:
        command = command.removeprefix(way)
    return command.startswith(ONLY_SHOW)


def quoted(path: str) -> str:
    """`path` as a shell takes it."""
    safe = all(c.isalnum() or c in "/._-+=:,@%~" for c in path)
    return path if safe else "'" + path.replace("'", "'\\''") + "'"


def as_text(checks: Iterable[Check]) -> str:
    """A line for each check."""
    return "".join(f"{one.state:<8} {one.name}: {one.text}" + (
        f"; {'check' if only_shows(one.fix) else 'fix'}: {one.fix}" if one.fix else "") + "\n"
                   for one in checks)


def as_json(checks: Iterable[Check]) -> dict[str, Any]:
    """
    {problems, checks} for `--json`; the command is `fix` where it fixes, `check` where it only
    shows more; `mend` is the earlier name of both.
    """
    checks = list(checks)
    return {"problems": sum(one.state == PROBLEM for one in checks),
            "checks": [{**one._asdict(), "fix": "" if only_shows(one.fix) else one.fix,
                        "check": one.fix if only_shows(one.fix) else "", "mend": one.fix}
                       for one in checks]}
