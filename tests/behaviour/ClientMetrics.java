import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.serialization.*;

/** Prints the metrics of new clients: client, group, name, tag names, description, and the value. */
public class ClientMetrics {
    static void print(String client, Map<MetricName, ? extends Metric> metrics) {
        metrics.forEach((name, metric) -> System.out.println(String.join("\t", client, name.group(), name.name(),
            String.join(",", new TreeSet<>(name.tags().keySet())), name.description(), String.valueOf(metric.metricValue()))));
    }

    public static void main(String[] args) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", "127.0.0.1:1", "client.id", "c"));
        var bytes = new ByteArrayDeserializer();
        config.put("group.id", "g");
        try (var consumer = new KafkaConsumer<>(config, bytes, bytes)) { print("classic", consumer.metrics()); }
        config.put("group.protocol", "consumer");
        try (var consumer = new KafkaConsumer<>(config, bytes, bytes)) { print("consumer", consumer.metrics()); }
        config.remove("group.id");
        config.remove("group.protocol");
        var serializer = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(config, serializer, serializer)) { print("producer", producer.metrics()); }
        try (var admin = Admin.create(config)) { print("admin", admin.metrics()); }
    }
}
