"""
job_stats as the kernel of each release prints it: simlustre's, which the tests use as well.
"""

from simlustre.job_stats_text import *  # noqa: F403
