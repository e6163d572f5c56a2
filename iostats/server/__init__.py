"""
HTTP and JSON-RPC, and the server of one job.
"""
