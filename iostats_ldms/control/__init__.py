"""
The control connection: queries and commands to ldmsd over LDMS' own TCP protocol.

    observed        the state of a daemon, as it reports it
    encoding        statements <-> the numbers of verbs and attributes in a release
    frames          bytes of the protocol <-> messages
    protocol        both ends of a connection, without I/O: bytes in, events out
    answers         the texts of ldmsd's answers -> observed
    errors          why a daemon cannot be controlled
    authentication  none, ovis and munge: secrets from files, credentials from munged
    connection      one connection, with asyncio
    queries         queries over a connection
"""
