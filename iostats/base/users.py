"""
Users of this machine, by name.

Source: getpwnam(3).
"""

from __future__ import annotations

import pwd


def find_user(name: str) -> pwd.struct_passwd | None:
    """
    Return the entry of the user of that name; None where there is no such user, also for a name
    that no user can have, such as one with a NUL.
    """
    try:
        return pwd.getpwnam(name)
    except (KeyError, ValueError):          # a UnicodeError is a ValueError
        return None
