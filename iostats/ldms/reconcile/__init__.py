"""
What runs against what the description wants: who collects what, and the fewest commands to it.
"""
