"""What is written into a bucket comes in one request: who dies in the midst of it leaves nothing to find or to pay for.

An upload in parts that nobody ends is shown by no listing, and kept and charged until somebody aborts it.
"""

import random
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from mirrorlake.offsets import TopicPartition
from support.archived_source import archive, held_records
from support.command import Ended, without_spark, write_yaml
from support.copies import archived_records, assert_same_records, wait_until
from support.mirrors import store_section
from support.object_servers import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ObjectServer
from support.records import Record, build_batch
from support.service_process import ServiceProcess
from support.store_proxy import StoreProxy

SEGMENTS, SEGMENT_RECORDS, RECORD_BYTES = 4, 80, 100_000
"""A segment is 8 MB that nothing compresses: clients put what is that large in parts, where they may."""
HALF_BYTES = SEGMENT_RECORDS * RECORD_BYTES // 2
KEY = b"key-1"
WORDS_OF_PARTS = ("uploads", "uploadId", "partNumber")
"""In the query of every request for an upload in parts."""


class HalfWay:
    """Passes bytes on to a server, but of each request that is long only the first half; says when it has.

    Use as a context manager.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self.reached = threading.Event()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(("127.0.0.1", self._target_port))
                self._ends += [client, server]
                threading.Thread(target=self._pass, args=(client, server, HALF_BYTES), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, None), daemon=True).start()

    def _pass(self, from_end: socket.socket, to_end: socket.socket, bytes_max: int | None) -> None:
        passed = 0
        with suppress(OSError):
            while data := from_end.recv(1 << 16):
                passed += len(data)
                if bytes_max is None or passed < bytes_max:
                    to_end.sendall(data)
                else:
                    self.reached.set()  # and what follows is taken, and goes nowhere
            to_end.shutdown(socket.SHUT_WR)

    def __enter__(self) -> "HalfWay":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        for each in (self._server, *self._ends):
            each.close()


class Scene:
    """An archive in a bucket, and verbs over it."""

    def __init__(self, server: ObjectServer, topic: str, folder: Path) -> None:
        self.server, self.topic, self.folder = server, topic, folder
        self.lake = server.settings()
        self.copies = replace(self.lake, prefix=f"{self.lake.prefix}-copies")
        chance = random.Random(3)
        self.records = {
            offset: Record(1_700_000_000_000 + offset, b"key-%d" % (offset % 97), chance.randbytes(RECORD_BYTES))
            for offset in range(SEGMENTS * SEGMENT_RECORDS)
        }
        batches = [(offset, build_batch([record])) for offset, record in self.records.items()]
        ends = [number * SEGMENT_RECORDS for number in range(1, SEGMENTS + 1)]
        archive(self.lake, TopicPartition(topic, 0), held_records(batches), ends, form="parquet")

    def configuration(self, verb: str, *, endpoint: str | None = None) -> Path:
        """Of the mirror that made the archive, which cannot be run any more; for ``run`` of one that copies it."""
        seen_at = replace(self.lake, endpoint=endpoint or self.server.endpoint)
        source, destination = "cluster: east", "store: lake"
        if verb == "run":
            source, destination = "store: lake", "store: copies, flush: {max-bytes: 64MiB}"
        return write_yaml(
            self.folder / f"{verb}-{seen_at.endpoint.rpartition(':')[2]}.yaml",  # type: ignore[union-attr]
            f"""clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores:
  lake: {store_section(seen_at, self.folder)}
  copies: {store_section(replace(seen_at, prefix=self.copies.prefix), self.folder)}
mirrors:
  - name: {self.topic}
    source: {{{source}, topics: [{self.topic}]}}
    destinations:
      - type: archive
        {destination.replace(", ", chr(10) + "        ")}
        merge: {{steps: [{{min-age: 0s, max-bytes: 64MiB}}], min-files: 2, min-bytes: 0}}
engine: {{lanes: 1, lease: 2s, memory: 512MiB}}
""",
        )

    def arguments(self, verb: str, *, endpoint: str | None = None) -> Sequence[str]:
        """What the command is given; each verb writes one object that is larger than a segment."""
        config = str(self.configuration(verb, endpoint=endpoint))
        return {
            "run": ("run", "-c", config, "--once"),
            "snapshot": ("archive", "snapshot", "-c", config, "--topic", self.topic),
            "erase": ("archive", "erase", "-c", config, "--topic", self.topic, "--key", KEY.decode(), "--yes"),
            "merge": ("archive", "merge", "-c", config),
        }[verb]

    def do(self, verb: str, *, endpoint: str | None = None) -> Ended:
        return without_spark(*self.arguments(verb, endpoint=endpoint))

    def keys(self) -> list[str]:
        return self.server.keys(self.lake.prefix)


def s3_client(server: ObjectServer) -> Any:
    """Amazon's own client, which knows of uploads in parts."""
    return botocore.session.get_session().create_client(
        "s3",
        region_name=REGION,
        endpoint_url=server.endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )


def unfinished_uploads(server: ObjectServer) -> list[str]:
    """The keys of all uploads in parts that somebody began in the bucket and nobody ended."""
    answer = s3_client(server).list_multipart_uploads(Bucket=BUCKET)
    return [each["Key"] for each in answer.get("Uploads", [])]


@pytest.fixture(params=["versitygw", "moto", pytest.param("minio", marks=pytest.mark.soak)])
def scene(request: pytest.FixtureRequest, topic_name: str, tmp_path: Path) -> Scene:
    server: ObjectServer = request.getfixturevalue(request.param)
    return Scene(server, topic_name, tmp_path)


@pytest.mark.parametrize("verb", ["merge", "run"])
def test_who_is_killed_in_the_midst_of_a_put_leaves_no_object_and_no_unfinished_upload(scene: Scene, verb: str) -> None:
    before = scene.keys()
    with HalfWay(scene.server.port) as network:
        arguments = scene.arguments(verb, endpoint=network.endpoint)
        with ServiceProcess(*arguments, folder=scene.folder, without_spark=True) as process:
            wait_until(lambda: network.reached.is_set() or not process.is_running, "half of a put", log=process.said)
            assert network.reached.is_set(), process.said()
            process.kill()
    left = set(scene.keys()) - set(before)
    assert all("/_" in key for key in left), "an announcement, a claim or a marker may stay, and no part of an object"
    assert unfinished_uploads(scene.server) == []
    assert_same_records(scene.records, archived_records(scene.lake, scene.topic))

    ended = scene.do(verb)
    assert ended.code == 0, ended.err
    for place in [scene.lake] if verb == "merge" else [scene.lake, scene.copies]:
        assert_same_records(scene.records, archived_records(place, scene.topic))
    assert unfinished_uploads(scene.server) == []


@pytest.mark.slow
def test_whatever_writes_into_a_bucket_creates_each_object_by_one_request_that_fails_where_it_is_there(
    scene: Scene,
) -> None:
    with StoreProxy(scene.server.port) as proxy:
        for verb in ("run", "snapshot", "erase", "merge"):
            ended = scene.do(verb, endpoint=proxy.endpoint)
            assert ended.code == 0 or verb == "erase", ended.err  # the newest segment waits for its erasure
    creates = [request for request in proxy.requests if request.method in ("PUT", "POST")]
    sizes = [int(request.headers.get("content-length", "0")) for request in creates]
    assert sum(size > HALF_BYTES for size in sizes) >= 3, "a copy, a snapshot and an erasure, each larger than a part"
    assert not [each.path for each in proxy.requests if any(word in each.path for word in WORDS_OF_PARTS)]
    conditions = {request.headers.get("if-none-match") for request in creates}
    assert conditions == {"*"}, [request.path for request in creates if "if-none-match" not in request.headers]


def test_an_unfinished_upload_would_be_seen(scene: Scene) -> None:
    client = s3_client(scene.server)
    begun = client.create_multipart_upload(Bucket=BUCKET, Key=f"{scene.lake.prefix}/begun")
    try:
        assert unfinished_uploads(scene.server) == [f"{scene.lake.prefix}/begun"]
    finally:
        client.abort_multipart_upload(Bucket=BUCKET, Key=begun["Key"], UploadId=begun["UploadId"])
