import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.zip.CRC32C;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java's consumer doing what tests/benchmarks/consumers.py does, in a JVM that has read the topic before.
 * Arguments: servers, topic, partitions, records, warm-up passes, whether to add up a checksum per record ("sum").
 * Prints what it found as one line of JSON.
 */
public class WarmConsumer {
    static long count, size, sum;
    static CRC32C[] checksums;
    static double seconds, cpuSeconds;

    public static void main(String[] args) {
        int partitions = Integer.parseInt(args[2]);
        long records = Long.parseLong(args[3]);
        int warmUps = Integer.parseInt(args[4]);
        boolean each = args.length > 5 && args[5].equals("sum");
        for (int pass = 0; pass <= warmUps; pass++) {
            read(args[0], args[1], partitions, records, each);
        }
        List<String> found = new ArrayList<>();
        for (CRC32C checksum : checksums) {
            found.add(Long.toString(checksum.getValue()));
        }
        System.out.printf(
            java.util.Locale.ROOT,
            "{\"records\": %d, \"size_bytes\": %d, \"checksums\": [%s], \"sum\": %d, \"seconds\": %.6f, \"cpu_s\": %.6f}%n",
            count, size, String.join(", ", found), sum, seconds, cpuSeconds);
    }

    static void read(String servers, String topic, int partitions, long records, boolean each) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        count = size = sum = 0;
        checksums = new CRC32C[partitions];
        Arrays.setAll(checksums, number -> new CRC32C());
        List<TopicPartition> assignment = new ArrayList<>();
        for (int number = 0; number < partitions; number++) {
            assignment.add(new TopicPartition(topic, number));
        }
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.partitionsFor(topic);
            long cpu = system.getProcessCpuTime();
            long start = System.nanoTime();
            consumer.assign(assignment);
            long last = start;
            while (count < records) {
                long before = count;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    byte[] value = record.value();
                    checksums[record.partition()].update(value);
                    if (each) {
                        CRC32C one = new CRC32C();
                        one.update(value);
                        sum += one.getValue();
                    }
                    count++;
                    size += value.length;
                }
                if (count > before) {
                    last = System.nanoTime();
                } else if (System.nanoTime() - last > 60_000_000_000L) {
                    throw new IllegalStateException("only " + count + " of " + records + " records came");
                }
            }
            seconds = (System.nanoTime() - start) / 1e9;
            cpuSeconds = (system.getProcessCpuTime() - cpu) / 1e9;
        }
    }
}
