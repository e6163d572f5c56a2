"""How many random cases a test has, where it needs another number than the usual 100."""

from hypothesis import settings


def examples(number):
    """`number` in `make test`; as much less, or more, as IOSTATS_EXAMPLES is of 100."""
    return max(1, number * settings.default.max_examples // 100)
