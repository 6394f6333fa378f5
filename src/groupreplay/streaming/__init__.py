"""Translation to Spark, Kafka, processes and the terminal; what happens to a group is decided in ``state``.

Start reading in ``query`` (the job in one sentence), ``pack`` and ``step`` (its two functions), ``run`` (what
is around them) and ``cli`` (the commands).
"""
