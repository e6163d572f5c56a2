"""
What ldmsd is told: statements, in its order, in the dialect of its release; and a checker of them.
"""
