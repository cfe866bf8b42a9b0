import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

/** Clients that have worked, kept open for an agent until standard input ends: servers, topic, group. */
public class JmxClients {
    public static void main(String[] args) throws Exception {
        Map<String, Object> common = Map.of("bootstrap.servers", args[0]);
        Map<String, Object> consumes = new HashMap<>(common);
        consumes.putAll(Map.of("client.id", "reader", "group.id", args[2], "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        Map<String, Object> produces = new HashMap<>(common);
        produces.put("client.id", "writer");
        Map<String, Object> administers = new HashMap<>(common);
        administers.put("client.id", "boss");
        var bytes = new ByteArraySerializer();
        var texts = new ByteArrayDeserializer();
        try (var producer = new KafkaProducer<>(produces, bytes, bytes);
                var consumer = new KafkaConsumer<>(consumes, texts, texts);
                var admin = Admin.create(administers)) {
            for (int n = 0; n < 10; n++) producer.send(new ProducerRecord<>(args[1], new byte[] {(byte) n})).get();
            admin.listTopics().names().get();
            consumer.subscribe(List.of(args[1]));
            for (int found = 0; found < 10;) found += consumer.poll(Duration.ofMillis(200)).count();
            consumer.commitSync();
            consumer.poll(Duration.ofMillis(200));
            System.out.println("ready");
            System.in.read();
        }
    }
}
