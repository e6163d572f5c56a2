"""
Planted jobs: random jobs of which it is known what slowed them, and how often that is reported.

    counters.py    what a node's kernel has counted, as the counter files of Lustre 2.15 and 2.12
    machine.py     a random cluster: what a call costs there, by latency, bandwidth and contention
    jobs.py        a job on it: nodes that spend seconds in calls of one kind or another
    causes.py      the jobs with a cause, and which findings name it
    healthy.py     the jobs without one
    neighbours.py  jobs on a whole site, slowed by others or by faults, for `iostats why`
    site.py        the site of such a job: storage servers with agents, the site's server, events
    score.py       what is reported of them, counted: `make score`

None of it has a threshold or a formula of the rules.
"""
