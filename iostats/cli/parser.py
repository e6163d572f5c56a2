"""
An argparse parser with our own help texts.
"""

import argparse

from iostats.errors import UsageError


def parser(prog, text, with_value, flags):
    """An argparse parser with our text as its help, which is another one with each Python."""
    class Parser(argparse.ArgumentParser):
        def format_help(self):
            return text

        def error(self, message):
            raise UsageError(f"{message} (see --help)")
    found = Parser(prog=prog, allow_abbrev=False)
    for option in with_value:
        found.add_argument(option)
    for option in flags:
        found.add_argument(option, action="store_true")
    return found
