"""What a lease brought back: a row for each of its partitions, or why there is none. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from mirrorlake.errors import ExecutorUncheckedError, LeaseLateError, MirrorlakeError, OutcomeUnknownError
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.pipeline.lease_job import RETRIED, UNCHECKED
from mirrorlake.pipeline.lease_job import LeaseRow as JobRow
from mirrorlake.service.state_table import RowKey


class LeaseOutcome(NamedTuple):
    """The rows of a lease by state, and the error that holds for every state without one."""

    rows: Mapping[RowKey, LeaseRow]
    unknown: MirrorlakeError

    @property
    def was_late(self) -> bool:
        """True where the lease came to its worker too late and did nothing."""
        return bool(self.rows) and all(isinstance(row.error, LeaseLateError) for row in self.rows.values())


def outcome_of(brought: list[JobRow] | MirrorlakeError) -> LeaseOutcome:
    """Returns what the rows of a lease's job say, or what its failure says of all its partitions."""
    if isinstance(brought, MirrorlakeError):
        return LeaseOutcome({}, brought)
    rows: dict[RowKey, LeaseRow] = {}
    unknown: MirrorlakeError = OutcomeUnknownError("the lease brought nothing back for this partition")
    for job_row in brought:
        row = job_row.get("row")
        if isinstance(row, LeaseRow):
            rows[row.mirror, row.source, row.destination] = row
        elif job_row["kind"] == UNCHECKED:
            unknown = ExecutorUncheckedError(
                f"a lease came to an executor on {job_row['host']} that was not looked at yet, and did nothing",
                hint="it has just joined; it is looked at now, and the lease is tried again",
            )
        elif job_row["kind"] == RETRIED:
            unknown = OutcomeUnknownError("the worker of the lease died; the outcome of its last request is unknown")
        else:
            unknown = OutcomeUnknownError(
                f"the lease failed: {job_row.get('error_type')}: {job_row.get('message')}",
            )
            unknown.__cause__ = RuntimeError(str(job_row.get("traceback", "")))
    return LeaseOutcome(rows, unknown)
