"""
The base of all other rooms: errors, units, site.cfg, job ids, node lists and private files.  It has
no code about Lustre, messages or commands.

Standard library only.
Pure: errors, units, job_facts, job_id, job_ports, node_list, sacct_time, strict_json, text,
cooperative.
"""
