"""What Kafka's log cleaner leaves of records: worked out here, so that the demo can tell when it is done."""

from mirrorlake.kafka.records.codec import RecordColumns


def surviving_rows(columns: RecordColumns) -> list[int]:
    """Returns the rows that one pass of the cleaner keeps: the last one of each key, tombstones included.

    Tombstones stay for ``delete.retention.ms`` after their first pass, a day by default. No key may be null.
    """
    last_row = {key: row for row, key in enumerate(columns.keys.to_pylist())}
    return sorted(last_row.values())
