"""
Charts as SVG, written by ourselves: over time, and over targets, nodes and sizes.

A chart is a value (chart.py); svg.py draws it into a page, as wide as there is room, or as a file
that stands alone; as_table.py has its numbers as text, for readers who cannot see it.  Unknown
values are gaps, and no line crosses them.  No element has a style of its own: style.py has the
classes, so a page may forbid inline styles.
"""
