"""
Messages, and who sent them: JSON-RPC, authentication, and the client that delivers.

It does not add up, and knows no job's life.

Standard library only: all but jsonrpc, messages.report, messages.report_decoder,
messages.totals, messages.sweep, messages.sweep_json, messages.sweep_decoder.
Pure: protocol, jsonrpc, messages.
"""
