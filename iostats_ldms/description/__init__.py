"""
The description: a YAML text -> model.Description, or problems with their places.
"""
