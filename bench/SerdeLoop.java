import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.io.DataInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;

/** Decodes and encodes records with Apicurio's serializers for Kafka, which write ids as Confluent's do. */
public class SerdeLoop {
    private static final int REPEATS = 200;
    private static final int ROUNDS = 5;
    private static final long WARM_NANOS = 5_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        String topic = "orders";
        Schema schema = new Schema.Parser().parse(Files.readString(Path.of(arguments[1])));
        Map<String, Object> settings = new HashMap<>();
        settings.put("apicurio.registry.url", arguments[0]);
        settings.put("apicurio.registry.auto-register", true);
        settings.put("apicurio.registry.as-confluent", true);
        settings.put("apicurio.registry.headers.enabled", false);
        AvroKafkaSerializer<GenericRecord> serializer = new AvroKafkaSerializer<>();
        AvroKafkaDeserializer<GenericRecord> deserializer = new AvroKafkaDeserializer<>();
        serializer.configure(settings, false);
        deserializer.configure(settings, false);
        List<byte[]> values = new ArrayList<>();
        try (DataInputStream bodies = new DataInputStream(new FileInputStream(new File(arguments[2])))) {
            GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(schema);
            for (int count = bodies.readInt(); count > 0; count--) {
                byte[] body = bodies.readNBytes(bodies.readInt());
                GenericRecord record = reader.read(null, DecoderFactory.get().binaryDecoder(body, null));
                byte[] value = serializer.serialize(topic, record);
                if (value[0] != 0 || value.length != body.length + 5) {
                    throw new IllegalStateException("values are not framed as Confluent's");
                }
                values.add(value);
            }
        }
        long began = System.nanoTime();
        while (System.nanoTime() - began < WARM_NANOS) {
            round(serializer, deserializer, topic, values);
        }
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long best = Long.MAX_VALUE;
        for (int number = 0; number < ROUNDS; number++) {
            long before = threads.getCurrentThreadCpuTime();
            round(serializer, deserializer, topic, values);
            best = Math.min(best, threads.getCurrentThreadCpuTime() - before);
        }
        System.out.println((double) values.size() * REPEATS * 1e9 / best);
    }

    private static void round(
            AvroKafkaSerializer<GenericRecord> serializer,
            AvroKafkaDeserializer<GenericRecord> deserializer,
            String topic,
            List<byte[]> values) {
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            for (byte[] value : values) {
                if (serializer.serialize(topic, deserializer.deserialize(topic, value)).length != value.length) {
                    throw new IllegalStateException("a record has changed");
                }
            }
        }
    }
}
