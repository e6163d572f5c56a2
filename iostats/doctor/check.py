"""
A line of the doctor: what was looked at, whether it is well, and the command that mends it.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

OK, NOTE, PROBLEM = "ok", "note", "problem"

Check = namedtuple("Check", "state name text mend", defaults=("",))
Check.__doc__ = """
One line of the doctor.

Attributes:
    state: OK, NOTE or PROBLEM.
    name: what was looked at.
    text: what was found where.
    mend: the command that mends it; "" where there is nothing to mend.
"""


def quoted(path: str) -> str:
    """`path` as a shell takes it."""
    safe = all(c.isalnum() or c in "/._-+=:,@%~" for c in path)
    return path if safe else "'" + path.replace("'", "'\\''") + "'"


def as_text(checks: Iterable[Check]) -> str:
    """A line for each check."""
    return "".join(f"{one.state:<8} {one.name}: {one.text}"
                   f"{'; mend: ' + one.mend if one.mend else ''}\n" for one in checks)


def as_json(checks: Iterable[Check]) -> dict[str, Any]:
    """{problems, checks} for `--json`."""
    return {"problems": sum(one.state == PROBLEM for one in checks),
            "checks": [one._asdict() for one in checks]}
