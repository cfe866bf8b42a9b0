import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes topics for the benchmarks and says what is in them, so that nobody's reading is the measure of another's.
 *
 * fill SERVERS TOPIC PARTITIONS RECORDS SIZE CODEC KEYED: random capital letters (as ProducerPerformance has them)
 * after a number, in turn to all partitions; prints one line of JSON.
 *
 * tick SERVERS TOPIC PARTITIONS RATE SIZE: so many records a second in turn to all partitions until a line
 * comes on standard input; each begins with the time in nanoseconds and with its number within its partition. Prints "ready" when it has
 * run for a second.
 */
public class TopicWriter {
    static volatile Exception failure;
    static final Callback REPORT = (metadata, exception) -> {
        if (exception != null) {
            failure = exception;
        }
    };

    public static void main(String[] args) throws Exception {
        if (args[0].equals("fill")) {
            fill(
                args[1], args[2], Integer.parseInt(args[3]), Long.parseLong(args[4]), Integer.parseInt(args[5]), args[6],
                Boolean.parseBoolean(args[7]));
        } else {
            tick(args[1], args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4]), Integer.parseInt(args[5]));
        }
        if (failure != null) {
            throw failure;
        }
    }

    static KafkaProducer<byte[], byte[]> open(String servers, String codec, int lingerMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("compression.type", codec);
        settings.put("linger.ms", Integer.toString(lingerMs));
        settings.put("buffer.memory", Integer.toString(64 << 20));
        // One request at a time keeps the order. The idempotent producer of 4.3.1 may begin its numbers anew in some of a
        // thousand partitions, and then never comes to an end. Whatever was written twice is found by those who read it.
        settings.put("enable.idempotence", "false");
        settings.put("max.in.flight.requests.per.connection", "1");
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        return new KafkaProducer<>(settings);
    }

    static void fill(String servers, String topic, int partitions, long records, int size, String codec, boolean keyed) {
        byte[][] texts = texts(size);
        CRC32C[] values = new CRC32C[partitions];
        Arrays.setAll(values, number -> new CRC32C());
        CRC32C[] keys = new CRC32C[partitions];
        Arrays.setAll(keys, number -> new CRC32C());
        long sum = 0;
        try (KafkaProducer<byte[], byte[]> producer = open(servers, codec, 100)) {
            for (long number = 0; number < records && failure == null; number++) {
                int partition = (int) (number % partitions);
                byte[] value = texts[(int) (number % texts.length)].clone();
                stamp(value, number);
                byte[] key = keyed ? Long.toString(number).getBytes(StandardCharsets.US_ASCII) : null;
                List<Header> headers = keyed
                    ? List.of(new RecordHeader("source", "benchmark".getBytes(StandardCharsets.US_ASCII)), new RecordHeader("id", key))
                    : null;
                producer.send(new ProducerRecord<>(topic, partition, key, value, headers), REPORT);
                values[partition].update(value);
                if (keyed) {
                    keys[partition].update(key);
                }
                CRC32 one = new CRC32();
                one.update(value);
                sum += one.getValue();
            }
        }
        System.out.printf(
            "{\"records\": %d, \"size_bytes\": %d, \"checksums\": %s, \"key_checksums\": %s, \"crc32_sum\": %d}%n",
            records, records * size, list(values), list(keys), sum);
    }

    static byte[][] texts(int size) {
        Random random = new Random(7);
        byte[][] found = new byte[size > 100_000 ? 20 : 5003][size];
        for (byte[] text : found) {
            for (int at = 0; at < size; at++) {
                text[at] = (byte) ('A' + random.nextInt(26));
            }
        }
        return found;
    }

    /** Puts a number before the text, as far as there is room for it, so that no two values are the same. */
    static void stamp(byte[] value, long number) {
        for (int at = Math.min(10, value.length) - 1; at >= 0; at--) {
            value[at] = (byte) ('0' + number % 10);
            number /= 10;
        }
    }

    static String list(CRC32C[] found) {
        return Arrays.stream(found).map(one -> Long.toString(one.getValue())).collect(Collectors.joining(", ", "[", "]"));
    }

    static void tick(String servers, String topic, int partitions, int rate, int size) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = open(servers, "none", 0)) {
            producer.partitionsFor(topic);
            long start = System.nanoTime();
            for (long number = 0; failure == null; number++) {
                long due = start + number * 1_000_000_000L / rate;
                while (System.nanoTime() < due) {
                    LockSupport.parkNanos(due - System.nanoTime());
                }
                if (number == rate) {
                    System.out.println("ready");
                }
                if (number % 100 == 0 && System.in.available() > 0) {
                    return;
                }
                byte[] value = new byte[size];
                Arrays.fill(value, (byte) '.');
                Instant now = Instant.now();
                String text = (1_000_000_000L * now.getEpochSecond() + now.getNano()) + " " + number / partitions + " ";
                byte[] head = text.getBytes(StandardCharsets.US_ASCII);
                System.arraycopy(head, 0, value, 0, head.length);
                producer.send(new ProducerRecord<>(topic, (int) (number % partitions), null, value), REPORT);
            }
        }
    }
}
