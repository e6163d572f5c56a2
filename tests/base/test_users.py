import os
import pwd

import pytest

from iostats.base.users import find_user


def test_a_user_is_found_by_name():
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert os.geteuid() == find_user(name).pw_uid


@pytest.mark.parametrize("name", ["", "nobody-has-this-name-23", "a\0b", "\udc80\ud800"])
def test_a_name_that_no_user_has_or_can_have_is_unknown(name):
    """A NUL is a ValueError of getpwnam(), a lone surrogate a UnicodeError."""
    assert find_user(name) is None
