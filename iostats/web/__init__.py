"""
Pages for a site, in a process of its own that asks the site's server and changes nothing.

It knows HTTP, templates and who is asking; the numbers, findings and charts on its pages are made
by `report`.  It must not open the store, nor run as root.
"""
