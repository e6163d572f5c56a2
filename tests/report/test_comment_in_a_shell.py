"""
The short form of a report passes through a shell as it is.
"""

import subprocess

from test_accounting_comment import fs_record, job_record

from iostats.report.accounting_comment import encode


def test_a_shell_leaves_a_line_as_it_is():
    """Without quotes, as in a script that calls sacctmgr; a file name of these letters too."""
    name = "$HOME `x` ~ * ? [a] {b,c} \\ 'q' \"q\" | & ; < > ( ) #!"
    line = encode(job_record([fs_record(name, 23, **{"~a=b": 5})], "4711[3].pbs"))
    for shell in ("sh", "bash"):
        assert line == subprocess.run([shell, "-c", f"printf %s AdminComment={line}"], check=True,
                                      capture_output=True, text=True).stdout[len("AdminComment="):]
