"""
A simulated ldmsd, for tests and for people without LDMS.

    daemon     one ldmsd as a state machine: a statement in, an errno and a text out
    plugins, producers, updaters, policies    what it is made of
    cluster    many of them and a clock, without sockets: for random walks
    live       one on a port: it answers control connections, and collects from others
    __main__   python -m simldms, a process that can be killed and stopped

It answers as ldmsd 4.5.3 and 4.4.6 do: the same errnos for the same mistakes, the same JSON, the
same counter of changes.  tests/simldms/ asks both, the simulated and, where there is one, the real.
What it has not: metrics.  A set is its name, its sizes and when it was sampled.
"""
