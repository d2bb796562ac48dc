"""What is sent about ACLs, byte by byte, and what the answers say, in every version that is used."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.control.acls import (
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
    RESOURCE_TYPES,
    Acl,
    create_acls_request,
    delete_acls_request,
    describe_acls_request,
)
from mirrorlake.kafka.control.control_requests import Refused
from mirrorlake.kafka.wire.protocol_classes import DeleteAclsResponse, DescribeAclsResponse

READS = Acl(
    resource_type="TOPIC",
    name="ab",
    pattern="LITERAL",
    principal="User:x",
    host="*",
    operation="READ",
    permission="ALLOW",
)

OLD_RULE = b"\x02\x00\x02ab\x03\x00\x06User:x\x00\x01*\x03\x03"
FLEXIBLE_RULE = b"\x02\x03ab\x03\x07User:x\x02*\x03\x03\x00"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, b"\x02\xff\xff\x01\xff\xff\xff\xff\x01\x01"),
        (2, b"\x02\x00\x01\x00\x00\x01\x01\x00"),
        (3, b"\x02\x00\x01\x00\x00\x01\x01\x00"),
    ],
)
def test_all_rules_of_one_type_are_asked_for(version: int, expected: bytes) -> None:
    assert bytes(describe_acls_request("TOPIC").message(version).encode(version=version)) == expected


@pytest.mark.parametrize("request_for", [create_acls_request, delete_acls_request])
@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, b"\x00\x00\x00\x01" + OLD_RULE),
        (2, b"\x02" + FLEXIBLE_RULE + b"\x00"),
        (3, b"\x02" + FLEXIBLE_RULE + b"\x00"),
    ],
)
def test_a_rule_is_created_and_deleted_by_all_of_its_parts(request_for, version, expected) -> None:  # type: ignore[no-untyped-def]
    assert bytes(request_for([READS]).message(version).encode(version=version)) == expected


OLD_ANSWER = (
    b"\x00\x00\x00\x05"  # throttled for 5 ms
    b"\x00\x00\xff\xff"
    b"\x00\x00\x00\x01"
    b"\x02\x00\x02ab\x03"
    b"\x00\x00\x00\x01"
    b"\x00\x06User:x\x00\x01*\x03\x03"
)
FLEXIBLE_ANSWER = b"\x00\x00\x00\x05\x00\x00\x00\x02\x02\x03ab\x03\x02\x07User:x\x02*\x03\x03\x00\x00\x00"


@pytest.mark.parametrize(("version", "answer"), [(1, OLD_ANSWER), (2, FLEXIBLE_ANSWER), (3, FLEXIBLE_ANSWER)])
def test_rules_are_read_from_an_answer_that_was_held_back_for_a_quota(version: int, answer: bytes) -> None:
    assert describe_acls_request("TOPIC").decode(memoryview(answer), version, peer="b") == frozenset([READS])


@pytest.mark.parametrize(
    ("code", "message"), [(31, None), (54, "No Authorizer is configured."), (-1, "something else")]
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_refusal_is_never_an_empty_list(version: int, code: int, message: str | None) -> None:
    answer = DescribeAclsResponse(throttle_time_ms=0, error_code=code, error_message=message, resources=[])
    encoded = memoryview(bytes(answer.encode(version=version)))

    assert describe_acls_request("TOPIC").decode(encoded, version, peer="b") == Refused(code, message)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_code_without_a_name_is_kept_as_its_number_and_told(version: int) -> None:
    resource = DescribeAclsResponse.DescribeAclsResource
    entry = resource.AclDescription(principal="User:x", host="*", operation=77, permission_type=3)
    found = resource(resource_type=2, resource_name="ab", pattern_type=3, acls=[entry])
    answer = DescribeAclsResponse(throttle_time_ms=0, error_code=0, error_message=None, resources=[found])
    encoded = memoryview(bytes(answer.encode(version=version)))

    read = describe_acls_request("TOPIC").decode(encoded, version, peer="b")

    assert read == frozenset([replace(READS, operation="77")])
    assert not any(acl.is_known for acl in read if isinstance(acl, Acl))
    assert READS.is_known


def test_an_item_that_is_refused_is_the_one_of_its_place() -> None:
    other = replace(READS, operation="DESCRIBE")
    answer = b"\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x2a\x04bad\x00\x00"

    assert create_acls_request([READS, other]).decode(memoryview(answer), 2, peer="b") == [None, Refused(42, "bad")]


def test_an_answer_about_fewer_rules_than_were_sent_is_not_understood() -> None:
    answer = b"\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00"

    with pytest.raises(CorruptBatchError, match="2 ACLs were asked about, and it speaks of 1"):
        create_acls_request([READS, READS]).decode(memoryview(answer), 2, peer="b")


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    ("whole", "single", "expected"),
    [(0, None, None), (31, None, Refused(31)), (0, 0, None), (0, -1, Refused(-1)), (31, 42, Refused(31))],
)
def test_a_deletion_failed_where_its_filter_or_what_it_met_did(
    version: int, whole: int, single: int | None, expected: Refused | None
) -> None:
    result = DeleteAclsResponse.DeleteAclsFilterResult
    met = result.DeleteAclsMatchingAcl(
        error_code=single or 0,
        error_message=None,
        resource_type=2,
        resource_name="ab",
        pattern_type=3,
        principal="User:x",
        host="*",
        operation=3,
        permission_type=3,
    )
    filters = [result(error_code=whole, error_message=None, matching_acls=[] if single is None else [met])]
    answer = DeleteAclsResponse(throttle_time_ms=0, filter_results=filters)
    encoded = memoryview(bytes(answer.encode(version=version)))

    assert delete_acls_request([READS]).decode(encoded, version, peer="b") == [expected]


RULES = st.builds(
    Acl,
    resource_type=st.sampled_from(sorted(RESOURCE_TYPES)),
    name=st.text(min_size=1, max_size=20),
    pattern=st.sampled_from(sorted(PATTERNS)),
    principal=st.text(max_size=20).map("User:{}".format),
    host=st.text(min_size=1, max_size=20),
    operation=st.sampled_from(sorted(OPERATIONS)),
    permission=st.sampled_from(sorted(PERMISSIONS)),
)


@given(RULES, st.sampled_from([1, 2, 3]))
def test_any_rule_comes_back_as_it_was_sent(acl: Acl, version: int) -> None:
    sent = create_acls_request([acl]).message(version).creations[0]
    resource = DescribeAclsResponse.DescribeAclsResource
    entry = resource.AclDescription(
        principal=sent.principal, host=sent.host, operation=sent.operation, permission_type=sent.permission_type
    )
    found = resource(
        resource_type=sent.resource_type,
        resource_name=sent.resource_name,
        pattern_type=sent.resource_pattern_type,
        acls=[entry],
    )
    answer = DescribeAclsResponse(throttle_time_ms=0, error_code=0, error_message=None, resources=[found])
    encoded = memoryview(bytes(answer.encode(version=version)))

    assert describe_acls_request(acl.resource_type).decode(encoded, version, peer="b") == frozenset([acl])
