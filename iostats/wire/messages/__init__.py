"""
One file for each message that is more than a method's parameters.
"""
