"""Benchmarks: programs that measure, whose results are data.

workloads       what is joined: seeded streams, the same for every contender
ours, peers     who joins it: slidejoin; Polars and DuckDB, the window kept for them
contender       what each of them does, timed batch by batch; agreement: that they find the same pairs
stage           each contender in a process of its own, taking turns
report          figures, goals, the table on the screen, the JSON in results/
foundation      the program: every figure of the embedded engine, from the sections
                throughput, small_batches, memory, startup, many_pairs and backlog
several         the program for several keys at once, with queries, several_contenders and several_parts
draw            the other programs: charts and tables for docs/ from the JSON; draw_several for that of several
spark           another program: joins on Spark, against Spark's own
                spark_feed: what is joined; spark_queries: sessions and queries; spark_model: many workers
draw_spark      its charts and tables
panjoin         the program of PanJoin's figures and goals, a package of its own
calibrate       the planner's table of costs

``python -m bench`` measures everything; ``docs/performance.md`` says what the benchmarks favour.
"""
