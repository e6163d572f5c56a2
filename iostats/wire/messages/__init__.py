"""
The params of methods that have types of their own, a file for each message.
"""
