"""What the fault tests share."""

from collections.abc import Iterator

import pytest

from support.lease_processes import LeaseProcesses


@pytest.fixture(scope="session")
def _lease_processes() -> Iterator[LeaseProcesses]:
    processes = LeaseProcesses()
    yield processes
    processes.end()


@pytest.fixture
def lease_processes(_lease_processes: LeaseProcesses) -> Iterator[LeaseProcesses]:
    """Starts leases in processes of their own; none outlives the test."""
    yield _lease_processes
    _lease_processes.end()
