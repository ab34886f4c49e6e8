"""Random joins for the tests: column types, conditions, windows, arrivals.

``types``        column types, and pools of values in which ties, specials and extremes are common
``expressions``  trees that both render to SQL text and evaluate in Python, so that the oracle never parses
``conditions``   the grammar of conditions over given columns
``cases``        whole joins: schemas, condition, windows, policies, and the calls to make
"""
