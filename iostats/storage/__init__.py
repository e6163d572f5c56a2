"""
A storage server's agent: sweeps over job_stats, sent to the site's server.

It keeps no totals: subtracting is the site's, which has both sides of a counter reset.

Standard library only.
"""
