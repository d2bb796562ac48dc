from mirrorlake.pipeline.lease_job import java_cause

ABORTED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted: Task 0 in stage 3.0 failed: java.io.IOException: cannot start
\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:280)
\t... 12 more

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
Caused by: java.io.IOException: cannot start
\t... 1 more
Caused by: java.nio.file.NoSuchFileException: /tmp/mirrorlake-0-x/a.sock
\t... 3 more
"""


def test_what_failed_in_the_jvm_is_said_with_its_first_cause() -> None:
    assert java_cause(ABORTED) == (
        "org.apache.spark.SparkException: Job aborted: Task 0 in stage 3.0 failed: java.io.IOException: cannot start; "
        "caused by java.nio.file.NoSuchFileException: /tmp/mirrorlake-0-x/a.sock"
    )


def test_a_cause_that_was_said_is_not_said_twice() -> None:
    text = "An error occurred while calling o1.collect.\n: a.B: no room\n\tat c.D(E.java)\nCaused by: no room"
    assert java_cause(text) == "a.B: no room"


def test_what_names_the_call_alone_is_said_where_there_is_nothing_else() -> None:
    assert java_cause("An error occurred while calling o1.collect.") == "An error occurred while calling o1.collect."
    assert java_cause("") == "it says nothing"


UNSCHEDULABLE = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure:
Aborting TaskSet 0.0 because task 0 (partition 0)
cannot run anywhere due to node and executor excludeOnFailure.
Most recent failure:
Lost task 0.1 in stage 0.0 (TID 1) (10.0.0.3 executor 0): org.apache.spark.SparkException: \n\
Error from python worker:
  /usr/bin/python3: Error while finding module specification for 'mirrorlake.pipeline.daemon' \
(ModuleNotFoundError: No module named 'mirrorlake')
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from the daemon's stdout.
\tat org.apache.spark.errors.SparkCoreErrors$.eofExceptionWhileReadPortNumberError(SparkCoreErrors.scala:55)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4568)
"""


def test_what_a_line_with_a_colon_announces_is_said_with_it() -> None:
    assert java_cause(UNSCHEDULABLE) == (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Aborting TaskSet 0.0 because task 0 "
        "(partition 0) cannot run anywhere due to node and executor excludeOnFailure. Most recent failure: Lost task "
        "0.1 in stage 0.0 (TID 1) (10.0.0.3 executor 0): org.apache.spark.SparkException: Error from python worker: "
        "/usr/bin/python3: Error while finding module specification for 'mirrorlake.pipeline.daemon' "
        "(ModuleNotFoundError: No module named 'mirrorlake')"
    )
