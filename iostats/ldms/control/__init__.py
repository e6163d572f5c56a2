"""
The control connection: ldmsd is asked, and told, over LDMS' own TCP protocol.

    observed        what a daemon has, as it said so
    commands        verbs and attributes -> the numbers of a release
    frames          bytes of the protocol <-> messages
    protocol        both ends of a connection, without I/O: bytes in, events out
    answers         the texts that ldmsd answers with -> observed
    authentication  none, ovis and munge: secrets from files, credentials from munged
    connection      one connection, with asyncio
    asking          questions over a connection

Pure: observed, commands, frames, protocol, answers.
"""
