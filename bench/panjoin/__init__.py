"""PanJoin's evaluation again, at sizes for two cores: ``python -m bench panjoin``.

structures      figures 10 to 13: inserting into and probing one subwindow, without the join around it
system          figure 15: whole joins through the public API, and a vectorised nested loop
speed           the goals: against a C++ B+-tree (anchor), two threads, large windows, selectivity, insertion
phases          a workload that changes: what the planner makes of it, beside each fixed choice
findings        whether what the paper finds holds here, judged from the figures
draw            the pictures in docs/img/panjoin and the tables of docs/panjoin.md
"""
