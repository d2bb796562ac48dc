"""ACLs of a cluster: what they are, how they are asked for, created and deleted, and what the answers say.

Codes are those of ``ResourceType``, ``PatternType``, ``AclOperation`` and ``AclPermissionType`` of Apache Kafka 4.3.0.
Sources: KIP-140, KIP-290 (patterns of names); ``AclApis`` and ``StandardAuthorizer`` of Apache Kafka 4.3.0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from mirrorlake.errors import MirrorlakeError, UnsupportedError
from mirrorlake.kafka.control.brokers import Brokers
from mirrorlake.kafka.control.control_requests import ControlRequest, Refused
from mirrorlake.kafka.control.rights import cluster_rights_request
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.kafka.wire.protocol_classes import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

RESOURCE_TYPES: Final[Mapping[str, int]] = MappingProxyType(
    {"TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5, "DELEGATION_TOKEN": 6, "USER": 7}
)
PATTERNS: Final[Mapping[str, int]] = MappingProxyType({"LITERAL": 3, "PREFIXED": 4})
OPERATIONS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "ALL": 2,
        "READ": 3,
        "WRITE": 4,
        "CREATE": 5,
        "DELETE": 6,
        "ALTER": 7,
        "DESCRIBE": 8,
        "CLUSTER_ACTION": 9,
        "DESCRIBE_CONFIGS": 10,
        "ALTER_CONFIGS": 11,
        "IDEMPOTENT_WRITE": 12,
        "CREATE_TOKENS": 13,
        "DESCRIBE_TOKENS": 14,
        "TWO_PHASE_COMMIT": 15,
    }
)
PERMISSIONS: Final[Mapping[str, int]] = MappingProxyType({"DENY": 2, "ALLOW": 3})
WILDCARD: Final = "*"
"""The literal name that stands for every resource of a type."""

_ANY: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Acl:
    """One access rule, in Kafka's names; a code that has none here is its number as text.

    Attributes:
        resource_type: such as ``TOPIC``.
        name: of the resource, or the beginning of names, or ``*`` for all with ``LITERAL``.
        pattern: ``LITERAL`` or ``PREFIXED``.
        principal: such as ``User:alice``.
        host: an address, ``*`` for all.
        operation: such as ``READ``.
        permission: ``ALLOW`` or ``DENY``.
    """

    resource_type: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    @property
    def is_known(self) -> bool:
        """True where every code of it has a name here; others cannot be judged, and are never sent."""
        return (
            self.resource_type in RESOURCE_TYPES
            and self.pattern in PATTERNS
            and self.operation in OPERATIONS
            and self.permission in PERMISSIONS
        )


def describe_acls_request(resource_type: str) -> ControlRequest[frozenset[Acl] | Refused]:
    """Asks for all ACLs of one type of resource, whatever their names."""

    def message(version: int) -> Any:
        return DescribeAclsRequest(
            resource_type_filter=RESOURCE_TYPES[resource_type],
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
            version=version,
        )

    def read(answer: Any) -> frozenset[Acl] | Refused:
        if answer.error_code:
            return Refused(answer.error_code, answer.error_message)
        return frozenset(_read_acl(resource, entry) for resource in answer.resources for entry in resource.acls)

    return ControlRequest(api=Api.DESCRIBE_ACLS, message=message, answer=DescribeAclsResponse, read=read)


def create_acls_request(acls: Sequence[Acl]) -> ControlRequest[list[Refused | None]]:
    """Asks to create ACLs; the answer has an item for each, None for done. One that is there already is done."""

    def message(version: int) -> Any:
        creation = CreateAclsRequest.AclCreation
        return CreateAclsRequest(
            creations=[
                creation(
                    resource_type=RESOURCE_TYPES[acl.resource_type],
                    resource_name=acl.name,
                    resource_pattern_type=PATTERNS[acl.pattern],
                    principal=acl.principal,
                    host=acl.host,
                    operation=OPERATIONS[acl.operation],
                    permission_type=PERMISSIONS[acl.permission],
                )
                for acl in acls
            ],
            version=version,
        )

    def read(answer: Any) -> list[Refused | None]:
        return _as_many([_refusal(result) for result in answer.results], acls)

    return ControlRequest(api=Api.CREATE_ACLS, message=message, answer=CreateAclsResponse, read=read)


def delete_acls_request(acls: Sequence[Acl]) -> ControlRequest[list[Refused | None]]:
    """Asks to delete exactly these ACLs; the answer has an item for each, None for done. One that is gone is done."""

    def message(version: int) -> Any:
        filter_ = DeleteAclsRequest.DeleteAclsFilter
        return DeleteAclsRequest(
            filters=[
                filter_(
                    resource_type_filter=RESOURCE_TYPES[acl.resource_type],
                    resource_name_filter=acl.name,
                    pattern_type_filter=PATTERNS[acl.pattern],
                    principal_filter=acl.principal,
                    host_filter=acl.host,
                    operation=OPERATIONS[acl.operation],
                    permission_type=PERMISSIONS[acl.permission],
                )
                for acl in acls
            ],
            version=version,
        )

    def read(answer: Any) -> list[Refused | None]:
        results = [
            next(filter(None, map(_refusal, (result, *(result.matching_acls or ())))), None)
            for result in answer.filter_results
        ]
        return _as_many(results, acls)

    return ControlRequest(api=Api.DELETE_ACLS, message=message, answer=DeleteAclsResponse, read=read)


def _as_many(results: list[Refused | None], acls: Sequence[Acl]) -> list[Refused | None]:
    if len(results) != len(acls):
        raise ValueError(f"{len(acls)} ACLs were asked about, and it speaks of {len(results)}")
    return results


def _refusal(result: Any) -> Refused | None:
    return Refused(result.error_code, result.error_message) if result.error_code else None


def _names(codes: Mapping[str, int]) -> dict[int, str]:
    return {code: name for name, code in codes.items()}


_TYPE_NAMES: Final = _names(RESOURCE_TYPES)
_PATTERN_NAMES: Final = _names(PATTERNS)
_OPERATION_NAMES: Final = _names(OPERATIONS)
_PERMISSION_NAMES: Final = _names(PERMISSIONS)


def _read_acl(resource: Any, entry: Any) -> Acl:
    return Acl(
        resource_type=_TYPE_NAMES.get(resource.resource_type, str(resource.resource_type)),
        name=resource.resource_name,
        pattern=_PATTERN_NAMES.get(resource.pattern_type, str(resource.pattern_type)),
        principal=entry.principal,
        host=entry.host,
        operation=_OPERATION_NAMES.get(entry.operation, str(entry.operation)),
        permission=_PERMISSION_NAMES.get(entry.permission_type, str(entry.permission_type)),
    )


class Acls:
    """Asks one cluster for its access rules, creates and deletes them."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def describe(self, resource_type: str) -> frozenset[Acl]:
        """Returns all ACLs of a type of resource, such as ``TOPIC``, as one broker's authorizer knows them.

        Raises:
            PermissionDeniedError: no right to read them, or the brokers have no authorizer (``code`` is 54).
        """
        answer = await self._brokers.ask_any(describe_acls_request(resource_type))
        if isinstance(answer, Refused):
            raise self._error(answer, "DescribeAcls")
        return answer

    async def may_change(self) -> bool | None:
        """Returns whether this user may create and delete ACLs, which takes ``ALTER`` on the cluster; None: not told.

        Brokers older than Kafka 2.8 do not tell, and none tells whoever may not describe the cluster.
        """
        try:
            rights = await self._brokers.ask_any(cluster_rights_request())
        except UnsupportedError:
            return None
        return None if rights is None else "ALTER" in rights

    async def create(self, acls: Sequence[Acl]) -> dict[Acl, MirrorlakeError | None]:
        """Creates ACLs; None for each that is there now. Brokers follow their controller a moment later."""
        answers = await self._brokers.ask_controller(create_acls_request(acls))
        return self._results(acls, answers, "CreateAcls")

    async def delete(self, acls: Sequence[Acl]) -> dict[Acl, MirrorlakeError | None]:
        """Deletes exactly these ACLs; None for each that is gone. Brokers follow their controller a moment later."""
        answers = await self._brokers.ask_controller(delete_acls_request(acls))
        return self._results(acls, answers, "DeleteAcls")

    def _results(
        self, acls: Sequence[Acl], answers: Sequence[Refused | None], what: str
    ) -> dict[Acl, MirrorlakeError | None]:
        return {
            acl: answer and self._error(answer, f"{what} of {acl.resource_type} {acl.name}")
            for acl, answer in zip(acls, answers, strict=True)
        }

    def _error(self, refused: Refused, what: str) -> MirrorlakeError:
        return error_for(
            refused.code, what=f"{what} in cluster {self._brokers.settings.name!r}", message=refused.message
        )
