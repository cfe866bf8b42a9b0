import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What Java's share consumer does after the broker has refused a renewal. Arguments: servers, topic, group, and the
 * milliseconds between the delivery and the renewal. Prints a line for each step: "refused" with the delivery count, the
 * outcome of an acknowledgement of the same record, the delivery count of the record that comes next, and the outcome of
 * its acknowledgement.
 */
public class RefusedRenewal {
    private static ConsumerRecord<byte[], byte[]> next(KafkaShareConsumer<byte[], byte[]> consumer) {
        for (long end = System.nanoTime() + 30_000_000_000L; System.nanoTime() < end;) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(300))) {
                return record;
            }
        }
        throw new IllegalStateException("no record came");
    }

    private static String commit(KafkaShareConsumer<byte[], byte[]> consumer) {
        return consumer.commitSync().values().iterator().next().map(error -> "refused").orElse("taken");
    }

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[2]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(args[1]));
            ConsumerRecord<byte[], byte[]> record = next(consumer);
            Thread.sleep(Long.parseLong(args[3]));
            consumer.acknowledge(record, AcknowledgeType.RENEW);
            System.out.println("renewal " + commit(consumer) + ", delivery " + record.deliveryCount().get());
            try {
                consumer.acknowledge(record);
                System.out.println("acknowledged");
            } catch (IllegalStateException error) {
                System.out.println("cannot be acknowledged");
            }
            ConsumerRecord<byte[], byte[]> again = next(consumer);
            consumer.acknowledge(again);
            System.out.println("acceptance " + commit(consumer) + ", delivery " + again.deliveryCount().get());
        }
    }
}
