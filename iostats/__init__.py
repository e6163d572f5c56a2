"""
iostats: what a job did to the Lustre file system.

The directories are the architecture; a module's name says what comes out of it.  Each room imports
only rooms to its left, and its `__init__.py` says what it is for and what it must not know:

    base < lustre < events < totals < wire < etcd < schedulers < node < load < storage < report
         < server < store < harvest < jobs < answers < sinks < collector < run < web < doctor < cli

iostats_ldms/ beside it is a package of its own, which imports these; nothing here imports it.

`tests/test_architecture.py` reads this line, the directories and the imports.
"""

__version__ = "0.1.0"
