"""
Configuration statements: the model of a description -> what ldmsd of a release accepts.
"""
