"""
Two jobs, or two parts of one, compared: what changed, by how much, and what is unknown.

    record -> numbers (what is known of each, between two bounds) -> changes -> text, json
"""
