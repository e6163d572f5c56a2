"""
HTTP and JSON-RPC, and the server of one job.

It has nothing of the site: no store, no storage servers, no users' rights.

    http_server < rpc_server < job_server
"""
