"""The engine and what connects it to Spark, Kafka and processes; what happens to a group is decided in ``state``.

Start reading in ``spark.query`` (the job in one sentence), ``engine.packing.pack`` and ``engine.advance`` (its two
functions), and ``job.run`` (what is around them).
"""
