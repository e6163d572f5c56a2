"""
A job's report as one page of HTML, which needs nothing but itself.

page.py puts it together; each other module makes values for a part of it: answer.py what stands
first, tables.py the tables, markup.py what templates may call.  All text goes through Jinja2 with
autoescape always on; only markup.py and the charts make markup.
"""
