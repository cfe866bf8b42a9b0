import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java's share consumer in implicit mode. Arguments: servers, topic, group, records to warm up, records to measure, and
 * max.poll.records. Prints the seconds and the seconds of the processor that the measured records took, as JSON.
 */
public class ShareRate {
    public static void main(String[] args) {
        long warm = Long.parseLong(args[3]);
        long wanted = warm + Long.parseLong(args[4]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[2]);
        settings.put("max.poll.records", args[5]);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(args[1]));
            long count = 0;
            long first = 0;
            long began = 0;
            long used = 0;
            while (count < wanted) {
                count += consumer.poll(Duration.ofSeconds(1)).count();
                if (began == 0 && count >= warm) {
                    first = count;
                    began = System.nanoTime();
                    used = system.getProcessCpuTime();
                }
            }
            System.out.printf("{\"seconds\": %f, \"cpu\": %f, \"records\": %d}%n", (System.nanoTime() - began) / 1e9,
                    (system.getProcessCpuTime() - used) / 1e9, count - first);
        }
    }
}
