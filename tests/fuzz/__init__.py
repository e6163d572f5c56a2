"""
Fuzzing: every byte that comes from the network or from a file, and what is made of it.

    tools      data -> edited JSON, mutated bytes; what an input may cost
    texts      counter files, job_stats, node lists, times, site.cfg, batch systems' output, records
    messages   JSON-RPC, HTTP, headers, answers of hostile servers, sweeps, sinks
    datagrams  what Ganglia is sent
    disk       state files, spools, SQLite, command lines
    long       `make fuzz`: each target for as long as it is asked to

A target is a function of bytes.  It lets pass the errors that are documented, and raises for
everything else: a traceback, a wrong result, a message that is not one line.  tests/test_fuzz.py
runs all of them for a short time, and everything in tests/corpus/TARGET.
"""
