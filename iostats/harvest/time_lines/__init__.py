"""
Time series of each job, and of each target, in bounded size.

    a target was read to its end   intake.py stores its jobs' amounts: in memory, and now and then
                                   in the store (store/line_store.py)
    once an hour                   series_sums.py adds them to the series of each job and target
    with age                       intake.py widens their bins, and removes them
    query                          answers/time_line_queries.py, from all of these

Targets are those of resets/.
"""
