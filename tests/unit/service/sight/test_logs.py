"""What comes to stderr of what libraries log."""

import subprocess
import sys

PROGRAM = """
import logging
from mirrorlake.service.sight.logs import configure_logs

configure_logs(level="info", as_json=False)
says = "import logging; logging.error('Exception while sending command.')"
exec(compile(says, "/site-packages/py4j/java_gateway.py", "exec"))
exec(compile(says.replace("Exception", "trouble"), "/site-packages/other/client.py", "exec"))
"""


def test_py4js_tracebacks_of_a_jvm_that_is_gone_are_not_shown_and_what_others_say_is() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    assert done.stderr == "ERROR root trouble while sending command.\n"


def test_what_sparks_own_logger_says_of_a_query_that_fails_is_left_to_the_error() -> None:
    program = """
from mirrorlake.service.sight.logs import configure_logs

configure_logs(level="info", as_json=False)
from pyspark.logger import PySparkLogger

for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(name).exception("a column cannot be resolved", errorClass="UNRESOLVED_COLUMN")
PySparkLogger.getLogger("another").error("trouble")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "cannot be resolved" not in done.stderr
    assert "trouble" in done.stderr
