"""
What etcd has of a cluster: the description that is valid, and those before it.
"""
