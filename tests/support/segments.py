"""Records read from segments, in the form the tests compare."""

from mirrorlake.kafka.records.columns import RecordColumns
from support.records import Record


def records_of(columns: RecordColumns) -> dict[int, Record]:
    """Rows as records, by offset."""
    headers = columns.headers.to_pylist()
    return {
        int(offset): Record(
            int(columns.timestamps[row]),
            columns.keys[row].as_py(),
            columns.values[row].as_py(),
            tuple((item["key"].decode(), item["value"]) for item in headers[row]),
        )
        for row, offset in enumerate(columns.offsets)
    }
