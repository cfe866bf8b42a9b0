import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.zip.CRC32C;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java's consumer running the programs of tests/benchmarks/client_program.py: the same steps, the same answers.
 * Arguments: the program's name, then name=value. Prints what it found as one line of JSON.
 */
public class BenchmarkConsumer {
    static final long PATIENCE_NS = 60_000_000_000L;
    static final int INSPECTED = 1000;

    static final Map<String, String> arguments = new HashMap<>();
    static int partitions;

    public static void main(String[] args) throws IOException {
        for (String argument : Arrays.asList(args).subList(1, args.length)) {
            int end = argument.indexOf('=');
            arguments.put(argument.substring(0, end), argument.substring(end + 1));
        }
        partitions = Integer.parseInt(arguments.get("partitions"));
        String found = switch (args[0]) {
            case "read" -> read();
            case "latency" -> latency();
            case "first" -> first();
            case "memory" -> memory();
            default -> throw new IllegalArgumentException(args[0]);
        };
        System.out.println("{" + found + "}");
    }

    static KafkaConsumer<byte[], byte[]> open(boolean group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments.get("servers"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (group) {
            settings.put("group.id", "benchmark-" + UUID.randomUUID());
        }
        return new KafkaConsumer<>(settings);
    }

    static List<TopicPartition> all() {
        List<TopicPartition> found = new ArrayList<>();
        for (int number = 0; number < partitions; number++) {
            found.add(new TopicPartition(arguments.get("topic"), number));
        }
        return found;
    }

    static String format(String text, Object... values) {
        return String.format(Locale.ROOT, text, values);
    }

    // ------------------------------------------------------------------ read

    static long count, size, sum;
    static CRC32C[] checksums, keyChecksums;
    static Watch watch;

    /** Reads the topic as often as "warm_ups" says, then once more with the clock running. */
    static String read() throws IOException {
        long records = Long.parseLong(arguments.get("records"));
        int warmUps = Integer.parseInt(arguments.getOrDefault("warm_ups", "0"));
        for (int pass = 0; pass <= warmUps; pass++) {
            readOnce(records, pass < warmUps);
        }
        return format(
            "\"records\": %d, \"size_bytes\": %d, \"checksums\": %s, \"key_checksums\": %s, \"sum\": %d, %s, \"peak_bytes\": %d",
            count, size, values(checksums), values(keyChecksums), sum, watch.stop(), peakBytes());
    }

    static void readOnce(long records, boolean inspect) {
        boolean each = "true".equals(arguments.get("sum"));
        boolean keyed = "true".equals(arguments.get("keyed"));
        int inspected = inspect && keyed ? 0 : INSPECTED;
        start();
        try (KafkaConsumer<byte[], byte[]> consumer = open(false)) {
            consumer.partitionsFor(arguments.get("topic"));
            watch = new Watch();
            consumer.assign(all());
            long last = System.nanoTime();
            while (count < records) {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofSeconds(1));
                for (ConsumerRecord<byte[], byte[]> record : found) {
                    take(record, keyed);
                    if (each) {
                        CRC32C one = new CRC32C();
                        one.update(record.value());
                        sum += one.getValue();
                    }
                    if (inspected < INSPECTED) {
                        inspected++;
                        inspect(record);
                    }
                }
                last = patience(found.isEmpty(), last, records);
            }
            watch.stop();
        }
    }

    static void start() {
        count = size = sum = 0;
        checksums = new CRC32C[partitions];
        Arrays.setAll(checksums, number -> new CRC32C());
        keyChecksums = new CRC32C[partitions];
        Arrays.setAll(keyChecksums, number -> new CRC32C());
    }

    static void take(ConsumerRecord<byte[], byte[]> record, boolean keyed) {
        byte[] value = record.value();
        checksums[record.partition()].update(value);
        if (keyed) {
            keyChecksums[record.partition()].update(record.key());
        }
        count++;
        size += value.length;
    }

    static void inspect(ConsumerRecord<byte[], byte[]> record) {
        Header[] headers = record.headers().toArray();
        if (headers.length != 2
                || !headers[0].key().equals("source")
                || !Arrays.equals(headers[0].value(), "benchmark".getBytes(StandardCharsets.US_ASCII))
                || !headers[1].key().equals("id")
                || !Arrays.equals(headers[1].value(), record.key())) {
            throw new IllegalStateException("headers are " + Arrays.toString(headers));
        }
    }

    static long patience(boolean nothing, long last, long records) {
        long now = System.nanoTime();
        if (nothing && now - last > PATIENCE_NS) {
            throw new IllegalStateException("only " + count + " of " + records + " records came");
        }
        return nothing ? last : now;
    }

    static String values(CRC32C[] found) {
        return Arrays.stream(found).map(one -> Long.toString(one.getValue())).collect(Collectors.joining(", ", "[", "]"));
    }

    // ------------------------------------------------------------------ latency

    static String latency() {
        int records = Integer.parseInt(arguments.get("records"));
        long warmNanos = (long) (1e9 * Double.parseDouble(arguments.get("warm_up_s")));
        double[] found = new double[records];
        long[] numbers = new long[partitions];
        Arrays.fill(numbers, -1);
        int at = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = open(false)) {
            consumer.assign(all());
            consumer.seekToEnd(all());
            long begin = System.nanoTime();
            long last = begin;
            watch = new Watch();
            while (at < records) {
                ConsumerRecords<byte[], byte[]> batch = consumer.poll(Duration.ofSeconds(1));
                Instant clock = Instant.now();
                long now = 1_000_000_000L * clock.getEpochSecond() + clock.getNano();
                last = patience(batch.isEmpty(), last, records);
                boolean warm = System.nanoTime() - begin < warmNanos;
                for (ConsumerRecord<byte[], byte[]> record : batch) {
                    String[] parts = new String(record.value(), StandardCharsets.US_ASCII).split(" ", 3);
                    long number = Long.parseLong(parts[1]);
                    int partition = record.partition();
                    if (numbers[partition] >= 0 && number != numbers[partition]) {
                        throw new IllegalStateException(number + " came, not " + numbers[partition]);
                    }
                    numbers[partition] = number + 1;
                    if (!warm && at < records) {
                        found[at++] = (now - Long.parseLong(parts[0])) / 1e6;
                    }
                }
                if (warm) {
                    watch = new Watch();
                }
            }
            watch.stop();
        }
        Arrays.sort(found);
        return format(
            "\"p50_ms\": %.6f, \"p99_ms\": %.6f, \"p999_ms\": %.6f, \"max_ms\": %.6f, \"records\": %d, %s",
            share(found, 0.5), share(found, 0.99), share(found, 0.999), found[records - 1], records, watch.stop());
    }

    static double share(double[] sorted, double share) {
        return sorted[Math.min(sorted.length - 1, (int) (share * sorted.length))];
    }

    // ------------------------------------------------------------------ first

    static String first() {
        boolean subscribe = "true".equals(arguments.get("subscribe"));
        int times = Integer.parseInt(arguments.get("times"));
        List<String> found = new ArrayList<>();
        for (int number = 0; number <= times; number++) {
            long start = System.nanoTime();
            try (KafkaConsumer<byte[], byte[]> consumer = open(subscribe)) {
                if (subscribe) {
                    consumer.subscribe(List.of(arguments.get("topic")));
                } else {
                    consumer.assign(all());
                }
                while (consumer.poll(Duration.ofSeconds(1)).isEmpty()) {
                    patience(true, start, 1);
                }
                found.add(format("%.6f", (System.nanoTime() - start) / 1e6));
            }
        }
        return format("\"first_ms\": %s, \"next_ms\": [%s]", found.get(0), String.join(", ", found.subList(1, times + 1)));
    }

    // ------------------------------------------------------------------ memory

    static String memory() throws IOException {
        long records = Long.parseLong(arguments.get("records"));
        int passes = Integer.parseInt(arguments.get("passes"));
        open(false).close();
        forgetPeak();
        long before = peakBytes();
        List<String> peaks = new ArrayList<>();
        for (int pass = 0; pass < passes; pass++) {
            readOnce(records, false);
            peaks.add(Long.toString(peakBytes()));
            forgetPeak();
        }
        return format(
            "\"records\": %d, \"checksums\": %s, \"before_bytes\": %d, \"peaks_bytes\": [%s]",
            count, values(checksums), before, String.join(", ", peaks));
    }

    static long peakBytes() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("\\D", "")) << 10;
            }
        }
        return 0;
    }

    static void forgetPeak() throws IOException {
        Files.writeString(Path.of("/proc/self/clear_refs"), "5");
    }

    /** Wall clock and processor time of all threads since it was made; the first {@link #stop} counts. */
    static final class Watch {
        static final com.sun.management.OperatingSystemMXBean SYSTEM =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

        final long cpu = SYSTEM.getProcessCpuTime();
        final long start = System.nanoTime();
        String found;

        String stop() {
            if (found == null) {
                double seconds = (System.nanoTime() - start) / 1e9;
                double cpuSeconds = (SYSTEM.getProcessCpuTime() - cpu) / 1e9;
                found = format("\"seconds\": %.6f, \"cpu_s\": %.6f", seconds, cpuSeconds);
            }
            return found;
        }
    }
}
