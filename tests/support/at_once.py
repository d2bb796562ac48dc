"""Cases of one test that mostly wait for time to pass: done at the same time, each told by its name."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Case = TypeVar("Case")
CASES_AT_ONCE = 4


def each_at_once(cases: Iterable[Case], check: Callable[[Case], None]) -> None:
    """Checks every case, a few at a time in threads, and fails with all that failed.

    Raises:
        ExceptionGroup: one error per case that failed, with a note that names the case.
    """

    def errors_of(case: Case) -> list[Exception]:
        try:
            check(case)
        except Exception as error:  # noqa: BLE001  told below, with those of the other cases
            error.add_note(f"case: {case}")
            return [error]
        return []

    with ThreadPoolExecutor(CASES_AT_ONCE) as pool:
        errors = [error for found in pool.map(errors_of, cases) for error in found]
    if errors:
        raise ExceptionGroup(f"{len(errors)} cases failed", errors)
