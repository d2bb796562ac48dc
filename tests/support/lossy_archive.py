"""An archive that loses files, and whose source deletes records: on a disk, or in a bucket that a folder holds."""

from pathlib import Path

from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import create_topic
from support.object_servers import ACCESS_KEY, BUCKET, SECRET_KEY, ObjectServer
from support.records import Record, simple_records
from support.service_process import ServiceProcess
from support.topics import append, delete_before

CREDENTIALS = {"TEST_KEY_ID": ACCESS_KEY, "TEST_SECRET": SECRET_KEY}


class LossyArchive:
    """A topic of one partition, and a mirror of it into an archive.

    Args:
        servers: of the source.
        topic: is made; the archive's folder has its name.
        folder: for the configuration, what is lost, and the archive where it is on a disk.
        form: its files' extension.
        policy: of `on-truncation`.
        more: settings of the destination.
        bucket: the server of the bucket it is in; on a disk without.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        folder: Path,
        *,
        form: str = "parquet",
        policy: str = "skip",
        more: str = "",
        bucket: ObjectServer | None = None,
    ) -> None:
        self.servers, self.topic, self.form = servers, topic, form
        self._folder, self._policy, self._more, self._bucket = folder, policy, more, bucket
        self.lake = folder / "lake" if bucket is None else bucket.folder / "buckets" / BUCKET / topic
        self.attic = (self.lake.parent if bucket is None else bucket.folder) / f"attic-{topic}"
        self.attic.mkdir()
        if bucket is None:
            self.lake.mkdir()
        create_topic(servers, topic)
        self.count = 0

    @property
    def folder(self) -> Path:
        """The partition's."""
        return self.lake / self.topic / "0"

    @property
    def descriptions(self) -> Path:
        return self.lake / self.topic / "_meta" / "0"

    @property
    def records_of_topic(self) -> list[Path]:
        return sorted((self.lake / self.topic).glob("_topic*.json"))

    def config(self, *, tail_check: str = "1m") -> Path:
        store = f"{{type: filesystem, root: {self.lake}}}"
        if self._bucket is not None:
            store = (
                f"{{type: s3, bucket: {BUCKET}, prefix: {self.topic}, region: us-east-1, "
                f'endpoint: "{self._bucket.endpoint}", access-key-id: "${{TEST_KEY_ID}}", '
                'secret-access-key: "${TEST_SECRET}"}'
            )
        archive = f"type: archive, store: lake, format: {self.form}, flush: {{max-time: 1s}}{self._more}"
        return write_yaml(
            self._folder / "mirror.yaml",
            f"""clusters: {{east: {{bootstrap-servers: '{self.servers}'}}}}
stores: {{lake: {store}}}
mirrors:
  - name: m-{self.topic}
    on-truncation: {self._policy}
    source: {{cluster: east, topics: [{self.topic}]}}
    destinations: [{{{archive}}}]
engine: {{tail-check: {tail_check}}}
""",
        )

    def do(self, *arguments: str) -> Ended:
        """Runs a command with the configuration."""
        return mirrorlake(*arguments, "-c", self.config(), environ=CREDENTIALS)

    def run(self) -> Ended:
        return self.do("run", "--once")

    def service(self, *, tail_check: str = "1m") -> ServiceProcess:
        config = self.config(tail_check=tail_check)
        return ServiceProcess("run", "-c", str(config), folder=self._folder, environ=CREDENTIALS, without_spark=True)

    def add(self, count: int, records: list[Record] | None = None) -> None:
        """Writes so many records to the source."""
        append(self.servers, self.topic, 0, records or simple_records(count, start=self.count))
        self.count += count

    def archive(self, *counts: int) -> None:
        """Makes a segment of each so many records, by a run of its own."""
        for count in counts:
            self.add(count)
            ended = self.run()
            assert ended.code == 0, ended.err

    def lose(self, first: int, last: int) -> None:
        """Takes a segment out of the archive; a description of it stays."""
        path = self.folder / self.name(first, last)
        path.rename(self.attic / path.name)

    def put_back(self) -> None:
        for path in self.attic.iterdir():
            path.rename(self.folder / path.name)

    def truncate(self, offset: int) -> None:
        """Has the source delete what lies below an offset."""
        delete_before(self.servers, self.topic, offset)

    def name(self, first: int, last: int) -> str:
        return f"{first:020}-{last:020}.{self.form}"

    def segments(self) -> list[tuple[int, int]]:
        """First and last offset of each segment."""
        names = sorted(path.stem for path in self.folder.glob(f"*.{self.form}"))
        return [(int(first), int(last)) for first, last in (name.split("-") for name in names)]
