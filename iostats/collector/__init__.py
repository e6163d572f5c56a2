"""
The interface of lustre-collector (2004): events of a Lustre site for monitors, by XML-RPC, JSON-RPC
and server-sent events, on one port.

It knows where events come from only as far as a source gives them to it: this machine, or the
site's server.

Pure: xml_rpc, access.
"""
