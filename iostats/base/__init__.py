"""
What everything uses: errors, units, site.cfg, job ids and node lists, private files.

It knows nothing of Lustre, of messages or of commands.

Standard library only.
Pure: errors, units, job_facts, job_id, node_list, sacct_time, strict_json, text, cooperative.
"""
