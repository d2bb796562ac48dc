"""SQL over the stores and clusters of a configuration: a query's tables become views of the data source.

Spark hands filters to a source written in Python, but not which columns a query needs. So a query is planned twice:
first over tables without rows, of which Spark says what it would read; then over those columns alone.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

from mirrorlake.config.resolved import Configuration
from mirrorlake.errors import QueryError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.spark import register
from mirrorlake.spark_source.columns import CONSTANT, SPARK_TYPES, spark_ddl
from mirrorlake.spark_source.options import place_named, read_options
from mirrorlake.spark_source.request import ReadOptions
from mirrorlake.spark_source.source import FORMAT
from mirrorlake.spark_source.sql_counts import counted_table
from mirrorlake.spark_source.sql_tables import Query, Table, read_query
from mirrorlake.spark_source.values.functions import register_functions
from mirrorlake.stores.settings import StoreSettings

_OURS = re.compile(r"mirrorlake\.[a-z_.]+\.\w+Errors?: (.+?)(?:\n\s*SQLSTATE|\n\n|\Z)", re.DOTALL)
_TASK = re.compile(
    r"Task \S+ in stage \S+ failed (\d+) times?, most recent failure: Lost task [^:\n]*: (?:[\w.]+: )?(.+)"
)
_CALL = re.compile(r"An error occurred while calling \S+\.$")
_CHEAPEST = "partition"
_VIEW = "LogicalRDD"
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_WRITING = (f"{_PLANS}.Command", f"{_PLANS}.ParsedStatement")
"""What Spark runs instead of reading: every statement but a query is one of these, or stands in `_RUNNING`."""

_RUNNING = {
    "InsertIntoDir": "it has an `insert overwrite directory`",
    "InsertIntoStatement": "it has an `insert`",
    "ScriptTransformation": "its `transform` starts a program",
}
_CALLING = frozenset({"CallMethodViaReflection", "TryReflect"})


def prepare(config: Configuration, text: str) -> Query:
    """Returns the query of a text; touches nothing.

    Raises:
        QueryError: it is none that only reads, or names a store or cluster that the configuration has not, or has two.
    """
    stores, clusters = ({each.name for each in kind} for kind in (config.stores, config.clusters))
    query = read_query(text, stores | clusters)
    for table in query.tables:
        if table.place in stores and table.place in clusters:
            raise QueryError(
                f"{table.place!r} is a store and a cluster in {config.file}", hint="give one of them another name"
            )
    return query


def places_of(config: Configuration, query: Query) -> list[StoreSettings | ClusterSettings]:
    """Returns the settings of the stores and clusters that a query reads."""
    stores = {each.name for each in config.stores}
    names = dict.fromkeys(table.place for table in query.tables)
    return [place_named(config, "store" if name in stores else "cluster", name) for name in names]


def run_query(
    spark: Any,
    config: Configuration,
    query: Query,
    *,
    read_timeout: str | None = None,
    schemas: str | None = None,
    is_stopping: Callable[[], bool] = bool,
) -> Any:
    """Returns the query's DataFrame; its rows are read when they are taken.

    ``read_timeout`` is the data source's option ``readTimeout``; its default where left out. ``schemas`` is the key of
    the registry whose archived schemas decode values; None for none.

    Raises:
        ConfigurationError, SchemaAlteredError: see `register_functions`.
        QueryError: Spark does not take it; a topic or column is unknown; the source could not be asked; or
            ``is_stopping`` said that it is to end.
    """
    if schemas is not None:
        register_functions(spark, config, schemas)
    more = {} if read_timeout is None else {"readTimeout": read_timeout}
    return told(lambda: _frame(spark, config, query, more, is_stopping))


def _frame(
    spark: Any, config: Configuration, query: Query, more: Mapping[str, str], is_stopping: Callable[[], bool]
) -> Any:
    for table in query.tables:
        _empty_view(spark, table)
    execution = analyzed(spark, query.text)
    if query.tables:
        use = _plan(execution)
        stores = {each.name for each in config.stores}
        is_registered = False
        for table in query.tables:
            frame = None
            if table.place in stores and use.is_only_counted:
                request = _request(config, table, use, slots=spark.sparkContext.defaultParallelism)
                frame = counted_table(spark, request, use.columns, is_stopping=is_stopping)
            if frame is None:
                if not is_registered:  # for which Spark starts a Python process, to look for sources of others
                    register(spark)
                    is_registered = True
                options = {**_options(config, table, use), **more}
                frame = spark.read.format(FORMAT).options(**options).load()
            frame.createOrReplaceTempView(_quoted(table.view))
    return spark.sql(f"{query.explain} {query.text}".strip())


def _options(config: Configuration, table: Table, use: "_Use") -> dict[str, str]:
    """Returns what the data source is told of a table."""
    kind = "store" if any(each.name == table.place for each in config.stores) else "cluster"
    return {
        "config": str(Path(config.file).absolute()),
        kind: table.place,
        "topics": table.topic,
        "columns": ",".join(use.columns),
        "pushdown": str(use.is_simple).lower(),
    }


def _request(config: Configuration, table: Table, use: "_Use", *, slots: int) -> ReadOptions:
    """Returns the same of a store as the data source reads it, its settings not read from the file again."""
    return read_options(_options(config, table, use), place=place_named(config, "store", table.place), slots=slots)


def analyzed(spark: Any, text: str) -> Any:
    """Returns Spark's ``QueryExecution`` of a query that only reads; nothing of it has run.

    A statement's first word does not tell: ``with`` and ``from`` may stand before an ``insert``. So Spark's own plan is
    looked at, as it is parsed, and once more when it is analyzed, as names may be made up by then (``identifier``).

    Raises:
        QueryError: it writes, or runs something else than a query.
    """
    state = spark._jsparkSession.sessionState()
    parsed = state.sqlParser().parsePlan(text)
    _check_reads(spark, parsed)
    # Spark runs commands while it makes a DataFrame of them, unless it is told to leave them alone.
    skip = spark.sparkContext._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    execution = state.executePlan(parsed, skip)
    _check_reads(spark, execution.analyzed())
    return execution


def _check_reads(spark: Any, plan: Any) -> None:
    from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

    gateway = spark.sparkContext._gateway
    name = _name(plan)
    if name in _RUNNING or any(is_instance_of(gateway, plan, each) for each in _WRITING):
        raise _refused(_RUNNING.get(name, f"it is a statement that changes something ({name})"))
    for expression in _items(plan.expressions()):
        _check_calls(expression)
    for below in (plan.children(), plan.innerChildren(), plan.subqueries()):
        for each in _items(below):
            _check_reads(spark, each)


def _check_calls(expression: Any) -> None:
    name = expression.getClass().getSimpleName()
    if name in _CALLING:
        raise _refused("reflect, try_reflect and java_method call what they like")
    for below in _items(expression.children()):
        _check_calls(below)


def _refused(why: str) -> QueryError:
    return QueryError(
        f"not a query that only reads: {why}", hint="write one that reads, such as select count(*) from lake.orders"
    )


def _empty_view(spark: Any, table: Table) -> None:
    """Makes a view of all columns and no rows, of which Spark's optimizer does not know that it has none."""
    jvm = spark.sparkContext._jvm
    schema = jvm.org.apache.spark.sql.types.StructType.fromDDL(spark_ddl(list(SPARK_TYPES)))
    rows = spark.sparkContext._jsc.emptyRDD()
    spark._jsparkSession.createDataFrame(rows, schema).createOrReplaceTempView(_quoted(table.view))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """What a query takes of its tables.

    Attributes:
        columns: from any of them; one at least.
        is_simple: whether it reads each in one place only.
        is_filtered: whether it leaves rows of one out, by what stands in them.
    """

    columns: tuple[str, ...]
    is_simple: bool
    is_filtered: bool

    @property
    def is_only_counted(self) -> bool:
        """Whether it asks for no more than how many records partitions have: of all of them."""
        return CONSTANT.issuperset(self.columns) and not self.is_filtered


def _plan(execution: Any) -> _Use:
    """Returns what a query takes of its tables.

    The columns are those of the optimized plan. Places are counted in that plan and in the one before it: the optimizer
    may unite some of them, and it may make two of one.
    """
    plan = execution.optimizedPlan()
    nodes = list(_nodes(plan))
    wanted = {each.exprId().toString() for each in _items(plan.output())}
    for node in nodes:
        wanted |= {each.exprId().toString() for each in _items(node.references().toSeq())}
    leaves = [node for node in nodes if not node.children().size()]
    found = {each.name() for leaf in leaves for each in _items(leaf.output()) if each.exprId().toString() in wanted}
    columns = tuple(name for name in SPARK_TYPES if name in found) or (_CHEAPEST,)
    return _Use(
        columns=columns,
        is_simple=_reads_each_once(nodes) and _reads_each_once(_nodes(execution.analyzed())),
        is_filtered=any(_name(node) == "Filter" and _is_of_rows(node.child()) for node in nodes),
    )


def _is_of_rows(plan: Any) -> bool:
    """Tells whether a plan gives rows of one view as they are."""
    while _name(plan) == "Project":
        plan = plan.child()
    return _name(plan) == _VIEW


def _name(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _reads_each_once(nodes: Iterable[Any]) -> bool:
    """Tells whether no view without rows stands in a plan twice; each has an RDD of its own."""
    views = [node.rdd().id() for node in nodes if _name(node) == _VIEW]
    return len(views) == len(set(views))


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for below in (plan.children(), plan.subqueries()):
        for each in _items(below):
            yield from _nodes(each)


def _items(sequence: Any) -> Iterable[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def told(work: Callable[[], Any]) -> Any:
    """Returns what the work returns.

    Raises:
        QueryError: Spark refused or failed; says why in the words of whoever knew.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        return work()
    except (PySparkException, Py4JError, EOFError, ConnectionResetError) as error:  # the last two of a JVM that is gone
        raise QueryError(reason(str(error))) from error


def reason(text: str) -> str:
    """Returns what is to be told of an error of Spark's: what we said in a worker, or else its reason.

    That is why a task failed, or the first line that says more than which call it was.
    """
    if ours := _OURS.findall(text):
        return " ".join(str(ours[-1]).split())
    if failed := _TASK.search(text):
        return f"a task failed {failed[1]} times, the last time with {failed[2]}"
    lines = [line for line in text.split("\n") if line.strip() and not _CALL.match(line)]
    first = lines[0].removeprefix(": ") if lines else text.strip() or "Spark failed without a word"
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", first).rstrip(";")
