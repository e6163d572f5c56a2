"""
`iostats run`: one command, measured on all nodes of its job.
"""
