"""
A description carried out: one connection to each daemon, what runs compared with what should.
"""
