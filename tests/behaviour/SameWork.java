import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.serialization.*;

/** Writes records and reads them in a group, and prints the metrics: client, group, name, tags, value. */
public class SameWork {
    static void print(String client, Map<MetricName, ? extends Metric> metrics) {
        metrics.forEach((name, metric) -> System.out.println(String.join("\t", client, name.group(), name.name(),
            String.join(",", new TreeSet<>(name.tags().keySet())), String.valueOf(metric.metricValue()))));
    }

    public static void main(String[] args) throws Exception {
        String servers = args[0], topic = args[1];
        int records = Integer.parseInt(args[3]), commitEach = Integer.parseInt(args[4]);
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", servers, "linger.ms", 5000));
        var serializer = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(config, serializer, serializer)) {
            for (int i = 0; i < records; i++) producer.send(new ProducerRecord<>(topic, i % 2, null, new byte[100]));
            producer.flush();
            print("producer", producer.metrics());
        }
        config = new HashMap<>(Map.of("bootstrap.servers", servers, "group.id", args[2], "max.poll.records", 100,
            "enable.auto.commit", false, "auto.offset.reset", "earliest"));
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(config, bytes, bytes)) {
            consumer.subscribe(List.of(topic));
            int read = 0;
            while (read < records) {
                int before = read / commitEach;
                read += consumer.poll(Duration.ofSeconds(1)).count();
                if (read / commitEach > before) consumer.commitSync();
            }
            consumer.poll(Duration.ofMillis(100)); // Java counts the records of a fetch once it has been read
            print("consumer", consumer.metrics());
        }
    }
}
