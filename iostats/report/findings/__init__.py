"""
Findings in a job's record: what a number means, and what to do.

A rule is one entry of a table: its id, when it holds, and what it says.  Thresholds and a site's
own words come from site.cfg, [findings].
"""
