"""
A line of the doctor: what was looked at, whether it is well, and the command that fixes it.
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
    fix: a command that fixes it; "" where there is none.
"""


def quoted(path: str) -> str:
    """`path` as a shell takes it."""
    safe = all(c.isalnum() or c in "/._-+=:,@%~" for c in path)
    return path if safe else "'" + path.replace("'", "'\\''") + "'"


def as_text(checks: Iterable[Check]) -> str:
    """A line for each check."""
    return "".join(f"{one.state:<8} {one.name}: {one.text}"
                   f"{'; fix: ' + one.fix if one.fix else ''}\n" for one in checks)


def as_json(checks: Iterable[Check]) -> dict[str, Any]:
    """{problems, checks} for `--json`; each check has its `fix` as `mend` too, its earlier name."""
    checks = list(checks)
    return {"problems": sum(one.state == PROBLEM for one in checks),
            "checks": [{**one._asdict(), "mend": one.fix} for one in checks]}
