"""
The description: a YAML text -> normal.Description, or one line about what is wrong with it.
"""
