import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/** A remote tier that is a folder: every reading of a segment takes as many milliseconds as the file "delay" says. */
public final class FolderTier implements RemoteStorageManager {
    private Path folder;

    @Override
    public void configure(Map<String, ?> configs) {
        folder = Path.of((String) configs.get("folder"));
    }

    private Path file(RemoteLogSegmentMetadata segment, String kind) {
        return folder.resolve(segment.remoteLogSegmentId().id() + "." + kind);
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data)
            throws RemoteStorageException {
        try {
            Files.copy(data.logSegment(), file(segment, "log"));
            Files.copy(data.offsetIndex(), file(segment, "OFFSET"));
            Files.copy(data.timeIndex(), file(segment, "TIMESTAMP"));
            Files.copy(data.producerSnapshotIndex(), file(segment, "PRODUCER_SNAPSHOT"));
            if (data.transactionIndex().isPresent()) {
                Files.copy(data.transactionIndex().get(), file(segment, "TRANSACTION"));
            }
            byte[] epochs = new byte[data.leaderEpochIndex().remaining()];
            data.leaderEpochIndex().get(epochs);
            Files.write(file(segment, "LEADER_EPOCH"), epochs);
            return Optional.empty();
        } catch (IOException cause) {
            throw new RemoteStorageException(cause);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) throws RemoteStorageException {
        try {
            Thread.sleep(Long.parseLong(Files.readString(folder.resolve("delay")).trim()));
            InputStream stream = new FileInputStream(file(segment, "log").toFile());
            stream.skipNBytes(start);
            return stream;
        } catch (IOException | InterruptedException cause) {
            throw new RemoteStorageException(cause);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end)
            throws RemoteStorageException {
        return fetchLogSegment(segment, start);
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType kind) throws RemoteStorageException {
        try {
            Path index = file(segment, kind.name());
            return Files.exists(index) ? new FileInputStream(index.toFile()) : InputStream.nullInputStream();
        } catch (IOException cause) {
            throw new RemoteStorageException(cause);
        }
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        try {
            for (String kind : new String[] {
                "log", "OFFSET", "TIMESTAMP", "PRODUCER_SNAPSHOT", "TRANSACTION", "LEADER_EPOCH"
            }) {
                Files.deleteIfExists(file(segment, kind));
            }
        } catch (IOException cause) {
            throw new RemoteStorageException(cause);
        }
    }

    @Override
    public void close() {}
}
