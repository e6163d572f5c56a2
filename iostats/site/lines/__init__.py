"""
Time lines: what each job, and each target, did over time, in bounded size.

    a target was read to its end   intake.py keeps what its jobs gained: in memory, and now and then
                                   in the store (line_store.py)
    once an hour                   folding.py adds it to the line of each job and of each target
    with age                       thinning.py makes lines coarser, and forgets them
    question                       questions.py, from all of these

It knows targets as resets/ has them.
"""
