"""The compiled loops that take the records of v2 batches over into other batches, without columns in between.

What follows the two deltas of a record, from the length of its key to its last header, means the same in any
batch: it is checked once and copied whole. Record layout: `DefaultRecord.java`.
"""

from mirrorlake.kafka.records.decode_kernels import (
    ADDRESS,
    APPEND_TIMESTAMP,
    BAD_OFFSET,
    BAD_RECORD,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BYTES_LEFT,
    IS_APPEND_TIME,
    LAST_OFFSET_DELTA,
    LENGTH,
    NO_ROOM,
    OK,
    RECORD_COUNT,
    read_record,
    skip_headers,
)
from mirrorlake.kafka.records.encode_kernels import varint_bytes, write_varint
from mirrorlake.kafka.records.kernels import Int64s, UInt8s, as_address, compiled, copy_bytes, store_byte

# A row per record: what both loops share. REST_AT is an address; REST_END is the sum of the rests up to and with this
# one.
OFFSET, TIMESTAMP, REST_AT, REST_BYTES, REST_END, RECORD_FIELDS = range(6)

# What a loop leaves besides its status.
ROWS, RUNS, FAILED_BATCH, FAILED_RECORD, TIMESTAMP_MAX, OUTCOME_FIELDS = range(6)

ROOM_PER_RECORD = 5 + 1 + 10 + 5
"""What a record takes besides its rest, at most: its length, attributes and two deltas."""


@compiled("int64(int64[:,::1], int64, int64, int64[:,::1], int64[::1], int64[::1])")
def find_records(
    table: Int64s,
    start_offset: int,
    end_offset: int,
    records: Int64s,
    run_rows: Int64s,
    outcome: Int64s,
) -> int:
    """Lists the records of some batches with ``start_offset <= offset < end_offset``; returns a status.

    ``table`` is laid out as `decode_kernels.py` does, its batches in the order of their offsets. All records are
    checked as there; with LogAppendTime they get their batch's time. ``run_rows`` is given the first row of each run of
    offsets that follow one another, over the ends of batches too, and after the last run the number of rows.
    ``outcome`` says how many rows and runs there are, or which record of which batch is not right.
    """
    row = 0
    runs = 0
    rest_end = 0
    for index in range(table.shape[0]):
        batch = table[index]
        outcome[FAILED_BATCH] = index
        if batch[RECORD_COUNT] > min(records.shape[0], run_rows.shape[0] - 1) - row:
            return NO_ROOM
        position = batch[ADDRESS]
        end = position + batch[LENGTH]
        previous_delta = -1
        for record in range(batch[RECORD_COUNT]):
            outcome[FAILED_RECORD] = record
            record_end, timestamp_delta, offset_delta, rest, _, _, _, _, headers, count = read_record(position, end)
            position = headers
            if count != 0:
                position = skip_headers(headers, count, record_end)[0]
            if position != record_end:
                return BAD_RECORD
            if offset_delta <= previous_delta or offset_delta > batch[LAST_OFFSET_DELTA]:
                return BAD_OFFSET
            previous_delta = offset_delta
            offset = batch[BASE_OFFSET] + offset_delta
            if offset < start_offset or offset >= end_offset:
                continue
            if row == 0 or offset != records[row - 1, OFFSET] + 1:
                run_rows[runs] = row
                runs += 1
            rest_end += record_end - rest
            records[row, OFFSET] = offset
            records[row, TIMESTAMP] = (
                batch[APPEND_TIMESTAMP] if batch[IS_APPEND_TIME] else batch[BASE_TIMESTAMP] + timestamp_delta
            )
            records[row, REST_AT] = rest
            records[row, REST_BYTES] = record_end - rest
            records[row, REST_END] = rest_end
            row += 1
        if position != end:
            return BYTES_LEFT
    run_rows[runs] = row
    outcome[ROWS] = row
    outcome[RUNS] = runs
    return OK


@compiled("int64(int64[:,::1], int64, int64, uint8[::1], int64, int64[::1])")
def write_rows(records: Int64s, start_row: int, end_row: int, output: UInt8s, start: int, outcome: Int64s) -> int:
    """Writes rows as the records of a dense batch from ``start`` on; returns where they end, or -1 for no room.

    Offsets count from the first row, one by one whatever they were; timestamps from the first row's. ``outcome`` is
    given the largest timestamp.
    """
    output_address = as_address(output.ctypes.data)
    address = output_address + start
    output_end = output_address + output.shape[0]
    timestamp_max = records[start_row, TIMESTAMP]
    for row in range(start_row, end_row):
        timestamp_max = max(timestamp_max, records[row, TIMESTAMP])
        timestamp_delta = records[row, TIMESTAMP] - records[start_row, TIMESTAMP]
        rest_bytes = records[row, REST_BYTES]
        if rest_bytes + ROOM_PER_RECORD > output_end - address:
            return -1
        length = 1 + varint_bytes(timestamp_delta) + varint_bytes(row - start_row) + rest_bytes
        address = write_varint(address, length)
        store_byte(address, 0)  # attributes: none are in use
        address = write_varint(address + 1, timestamp_delta)
        address = write_varint(address, row - start_row)
        copy_bytes(address, records[row, REST_AT], rest_bytes)
        address += rest_bytes
    outcome[TIMESTAMP_MAX] = timestamp_max
    return address - output_address
