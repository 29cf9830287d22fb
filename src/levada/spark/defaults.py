"""What holds where neither the command line nor a file says otherwise; known without loading Spark."""

BOOTSTRAP_SETTING = "spark.levada.bootstrap"
"""Spark's own setting in which a session keeps the brokers it reads from and writes to."""

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_MASTER = "local[2,4]"
"""Two tasks at a time, each tried up to four times; plain `local[2]` never tries again."""

CONNECT = "sc://"
"""The address of a Spark Connect server begins so."""
