"""
etcd, by its JSON gateway: members that fail over, transactions, leases, and a watch that resumes.

Agents on storage servers ask it as well.

Pure: answers.

Standard library only: all.
"""
