import io
from dataclasses import replace

import pytest

from mirrorlake.archive.envelope import FileSum, SegmentFooter, encode_footer
from mirrorlake.archive.formats.ndjson import NdjsonSegmentWriter
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.sidecar import create_sidecar, find_sidecar, sidecar_folder, sidecar_key
from mirrorlake.errors import ChainBrokenError, UnsupportedError
from mirrorlake.stores.memory import MemoryStore
from unit.archive.sample_records import AWKWARD, Record, columns_of, envelope

KEY = "orders/3/00000000000000000010-00000000000000000020.ndjson"
SIDECAR = "orders/_meta/3/00000000000000000010-00000000000000000020.ndjson.json"
SECOND = "orders/_meta/3/00000000000000000010-00000000000000000020.ndjson.1.json"
THIRD = "orders/_meta/3/00000000000000000010-00000000000000000020.ndjson.2.json"


def segment(records: list[Record], *, writer: str = "test", topic: str = "orders") -> tuple[bytes, SegmentFooter]:
    file = io.BytesIO()
    made = NdjsonSegmentWriter(file, replace(envelope(start_offset=10, topic=topic), writer=writer))
    made.write(columns_of(records))
    return file.getvalue(), made.close(end_offset=21)


GOOD, FOOTER = segment(list(AWKWARD))
COMPACTED, COMPACTED_FOOTER = segment(list(AWKWARD[1:]))


def found(store: MemoryStore, data: bytes) -> SegmentFooter | None:
    return find_sidecar(store, KEY, io.BytesIO(data))


def test_a_description_stands_in_a_folder_beside_the_segments() -> None:
    assert sidecar_key(KEY) == SIDECAR
    assert sidecar_key(KEY, 1) == SECOND
    assert sidecar_folder("orders/3") == "orders/_meta/3"
    with pytest.raises(ValueError, match="not the folder of a partition"):
        sidecar_folder("3")


def test_what_was_described_is_found() -> None:
    store = MemoryStore()
    create_sidecar(store, KEY, FOOTER)
    assert list(store.objects) == [SIDECAR]
    assert found(store, GOOD) == FOOTER


def test_describing_the_same_bytes_again_changes_nothing_whoever_does_it() -> None:
    store = MemoryStore()
    create_sidecar(store, KEY, FOOTER)
    create_sidecar(store, KEY, segment(list(AWKWARD), writer="other")[1])
    assert list(store.objects) == [SIDECAR]
    assert found(store, GOOD) == FOOTER


def test_of_two_descriptions_the_one_of_the_files_bytes_counts() -> None:
    store = MemoryStore()
    create_sidecar(store, KEY, FOOTER)
    create_sidecar(store, KEY, COMPACTED_FOOTER)
    create_sidecar(store, KEY, FOOTER)
    assert sorted(store.objects) == [SECOND, SIDECAR]
    assert found(store, GOOD) == FOOTER
    assert found(store, COMPACTED) == COMPACTED_FOOTER
    with pytest.raises(ChainBrokenError, match="none of its 2 descriptions is about its bytes"):
        found(store, GOOD[:-1])


def test_a_description_of_another_source_is_not_taken_for_ours() -> None:
    store = MemoryStore()
    other = replace(FOOTER, envelope=replace(FOOTER.envelope, cluster_id="elsewhere"))
    create_sidecar(store, KEY, other)
    create_sidecar(store, KEY, FOOTER)
    assert sorted(store.objects) == [SECOND, SIDECAR]


@pytest.mark.parametrize("void", [b"", b"{", b"[]", encode_footer(replace(FOOTER, file=None))])
def test_a_void_description_is_passed_over(void: bytes) -> None:
    store = MemoryStore({SIDECAR: void})
    create_sidecar(store, KEY, FOOTER)
    assert sorted(store.objects) == [SECOND, SIDECAR]
    assert found(store, GOOD) == FOOTER


def test_a_lone_void_description_is_an_error_that_names_it() -> None:
    with pytest.raises(ChainBrokenError, match=SIDECAR):
        found(MemoryStore({SIDECAR: b""}), GOOD)


def test_a_description_from_the_future_is_refused_as_such() -> None:
    data = encode_footer(FOOTER).replace(b'"format_version": 1', b'"format_version": 2')
    with pytest.raises(UnsupportedError, match="segment format 2"):
        found(MemoryStore({SIDECAR: data}), GOOD)


def test_ten_descriptions_of_other_bytes_are_refused_with_the_remedy() -> None:
    store = MemoryStore({sidecar_key(KEY, revision): b"" for revision in range(10)})
    with pytest.raises(ChainBrokenError, match="10 descriptions") as refused:
        create_sidecar(store, KEY, FOOTER)
    assert SIDECAR in refused.value.hint
    assert len(store.objects) == 10


def test_a_file_without_a_description_was_written_by_mirror_v3() -> None:
    with open_segment(MemoryStore({KEY: GOOD}), KEY) as reader:
        assert reader.footer is None
        assert sum(len(columns) for columns in reader.records()) == len(AWKWARD)


def test_a_segment_is_opened_with_its_description() -> None:
    store = MemoryStore({KEY: GOOD})
    create_sidecar(store, KEY, FOOTER)
    with open_segment(store, KEY) as reader:
        assert reader.footer == FOOTER
        reader.check_content()


def test_steps_are_named_before_they_happen() -> None:
    steps: list[str] = []
    store = MemoryStore({SIDECAR: b"", SECOND: encode_footer(COMPACTED_FOOTER)})
    create_sidecar(store, KEY, FOOTER, crash_point=steps.append)
    assert steps == ["create sidecar", "read sidecar"] * 2 + ["create sidecar"]
    assert THIRD in store.objects


def test_the_sum_of_a_file_survives_its_json() -> None:
    store = MemoryStore()
    create_sidecar(store, KEY, FOOTER)
    assert b'"file": {"bytes": ' in store.objects[SIDECAR]
    back = found(store, GOOD)
    assert back is not None
    assert back.file == FileSum(bytes=len(GOOD), checksum=FOOTER.file.checksum if FOOTER.file else "")
