"""
Messages between nodes and servers: JSON-RPC, authentication, and the client that delivers.

It adds nothing up, and does not know whether a job still runs.

Standard library only: all but jsonrpc, messages.arrays, messages.report, messages.totals,
messages.sweep, messages.sweep_decoder, messages.clients, messages.events.
Pure: protocol, jsonrpc, messages.
"""
