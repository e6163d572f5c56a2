"""
Messages between nodes and servers: JSON-RPC, authentication, and the client that delivers.

It does not add up, and does not know whether a job still runs.

Standard library only: all but jsonrpc, messages.report, messages.report_decoder,
messages.totals, messages.sweep, messages.sweep_json, messages.sweep_decoder, messages.clients,
messages.clients_decoder, messages.events, messages.events_decoder.
Pure: protocol, jsonrpc, messages.
"""
