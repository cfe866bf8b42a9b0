import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words with Kafka Streams on two instances, one of which is closed half way, and compares the last counts.
 *
 * <p>Arguments: the address of a broker, the id of the application, its guarantee. Prints "equal" or both counts.
 */
public class CountWords {
    private static final int LINES = 3000;

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        String id = arguments[1];
        String input = id + "-in";
        String output = id + "-out";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            admin.createTopics(List.of(new NewTopic(input, 3, (short) 1), new NewTopic(output, 3, (short) 1))).all().get();
        }
        List<KafkaStreams> instances = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            KafkaStreams instance = instance(servers, id, arguments[2], input, output);
            instance.start();
            instances.add(instance);
        }
        Map<String, Long> wanted = new TreeMap<>();
        Map<String, Object> ofProducer = Map.of("bootstrap.servers", servers);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(ofProducer, new StringSerializer(), new StringSerializer())) {
            for (int line = 0; line < LINES; line++) {
                if (line == LINES / 2) {
                    producer.flush();
                    awaitRunning(instances);
                    instances.remove(1).close(Duration.ofSeconds(20));
                }
                String text = "w" + line % 7 + " w" + line % 11;
                for (String word : text.split(" ")) wanted.merge(word, 1L, Long::sum);
                producer.send(new ProducerRecord<>(input, "" + line, text));
            }
        }
        Map<String, Long> counts = lastCounts(servers, id, output, wanted);
        instances.get(0).close(Duration.ofSeconds(20));
        System.out.println(counts.equals(wanted) ? "equal" : "wanted " + wanted + "\ncounted " + counts);
    }

    private static KafkaStreams instance(String servers, String id, String guarantee, String input, String output)
            throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.as("counts"))
                .toStream()
                .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        Properties settings = new Properties();
        settings.putAll(Map.of(
                "application.id", id,
                "bootstrap.servers", servers,
                "processing.guarantee", guarantee,
                "state.dir", Files.createTempDirectory("streams").toString(),
                "commit.interval.ms", 200,
                "replication.factor", 1,
                "num.standby.replicas", 1));
        return new KafkaStreams(builder.build(), settings);
    }

    private static void awaitRunning(List<KafkaStreams> instances) throws Exception {
        long end = System.currentTimeMillis() + 60_000;
        while (!instances.stream().allMatch(instance -> instance.state() == KafkaStreams.State.RUNNING)) {
            if (System.currentTimeMillis() > end) throw new IllegalStateException("not running within 60 s");
            Thread.sleep(100);
        }
    }

    private static Map<String, Long> lastCounts(String servers, String id, String output, Map<String, Long> wanted) {
        Map<String, Long> counts = new TreeMap<>();
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", servers,
                "group.id", id + "-reader",
                "auto.offset.reset", "earliest",
                "isolation.level", "read_committed");
        long end = System.currentTimeMillis() + 90_000;
        try (KafkaConsumer<String, Long> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
            consumer.subscribe(List.of(output));
            while (!counts.equals(wanted) && System.currentTimeMillis() < end) {
                for (var record : consumer.poll(Duration.ofMillis(200))) counts.put(record.key(), record.value());
            }
        }
        return counts;
    }
}
