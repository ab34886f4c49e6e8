"""Windows: what the user states (``spec``), time (``timeline``), and the rows held (``ring``)."""
