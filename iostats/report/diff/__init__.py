"""
Two jobs, or two parts of one, compared: what changed, by how much, and what cannot be told.

    record -> numbers (what is known of each, between two bounds) -> changes -> text, json
"""
