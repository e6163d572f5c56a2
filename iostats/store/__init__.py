"""
The database of the site's server: reports, records, runs, harvest, clients, time lines, events.

    tables          all tables; schema makes them, migrations/ upgrades those of an older release
    database        transactions, and what to do when a statement fails
    sqlite, postgresql    what is special to an engine; repair: the readable rows of a damaged file;
                    copy: all rows to another store
    clock           the store's own time, which cannot be set
    record_store    reports until they are added up, and records; job_index: a row for each record
    *_store         the tables of one part of the server each

It knows what is stored, and not what for: no rule about a job or a counter is here.
"""
