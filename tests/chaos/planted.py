"""
A campaign with a fault: a test of the tests repeats it.

pytest runs this file only where it is named.
"""
from campaign import dice


def test_a_planted_fault():
    chosen = dice("planted").randrange(10**9)
    assert chosen < 0, f"chosen {chosen}"
