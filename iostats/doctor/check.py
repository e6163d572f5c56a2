"""
A line of the doctor: what was examined, its state, and a command that fixes it or shows more.
"""

from __future__ import annotations

from typing import NamedTuple

from iostats.base.text import wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OK, NOTE, PROBLEM = "ok", "note", "problem"
_WIDTH, _INDENT = 80, " " * 9            # below the name, behind the state


class Check(NamedTuple):
    """A result of the doctor: what was checked, how it is, and the command that repairs it."""

    state: str  # OK, NOTE or PROBLEM
    name: str   # the subject of the check
    text: str   # what was found where
    # a command that fixes it, or one of ONLY_SHOW that shows more; "" where there is none
    fix: str = ""


# The beginnings of commands that change nothing: they are printed as "check:", not as "fix:".
ONLY_SHOW = ("ping ", "ss ", "df ", "du ", "cat ", "etcdctl endpoint ", "lctl ping ",
             "lctl get_param ", "lnetctl net show", "lnetctl route show", "iostats capacity",
             "iostats config", "iostats events ", "iostats doctor",
             "iostats_client.py doctor", "iostats_client.py show ",
             "iostats_client.py harvest --list")
_PREFIXES = ("sudo ", "nsenter -t 1 -m ")  # before any of these commands


def is_read_only(command: str) -> bool:
    """
    Whether a command of the doctor shows more and fixes nothing.

    >>> is_read_only("ping -c 3 mgmt1"), is_read_only("ssh mgmt1 'ss -ltnp sport = :8022'")
    (True, True)
    >>> is_read_only("ssh mgmt1 'systemctl start iostats-site.service'")
    False
    """
    if command.startswith("ssh "):
        command = command.split(" ", 2)[-1].strip("'")
    for prefix in _PREFIXES:
        command = command.removeprefix(prefix)
    return command.startswith(ONLY_SHOW)


def quote_path(path: str) -> str:
    """Return `path` as a shell takes it."""
    safe = all(c.isalnum() or c in "/._-+=:,@%~" for c in path)
    return path if safe else "'" + path.replace("'", "'\\''") + "'"


def as_text(checks: Iterable[Check]) -> str:
    """
    Each check in lines of up to _WIDTH columns; its command has a line of its own, and is never
    broken.
    """
    lines = []
    for check in checks:
        first, *more = wrap(f"{check.name}: {check.text}", _WIDTH - len(_INDENT), "")
        lines += [f"{check.state:<8} {first}", *(_INDENT + line for line in more)]
        if check.fix:
            lines.append(f"{_INDENT}{'check' if is_read_only(check.fix) else 'fix'}: {check.fix}")
    return "".join(line + "\n" for line in lines)


def as_json(checks: Iterable[Check]) -> dict[str, object]:
    """
    Return {problems, checks} for `--json`.  `fix` is a command that fixes the problem, `check` one
    that shows more.
    """
    checks = list(checks)
    return {"problems": sum(check.state == PROBLEM for check in checks),
            "checks": [{**check._asdict(), "fix": "" if is_read_only(check.fix) else check.fix,
                        "check": check.fix if is_read_only(check.fix) else ""}
                       for check in checks]}
