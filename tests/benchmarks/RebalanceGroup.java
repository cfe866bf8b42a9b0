import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java's consumers doing what tests/benchmarks/rebalance_group.py does.
 * Arguments: servers, topic, group, class of the assignor, partitions, members, rounds, first assignments.
 * Prints what it measured as one line of JSON.
 */
public class RebalanceGroup {
    static final int LONGEST_INTERVAL_MS = 3000, STEP_MS = 60;
    static final double SETTLED_FOR_S = 4, APART_AFTER_S = 8, WITHIN_S = 60;
    static String servers, topic, group, assignor;
    static int partitions;

    static double now() {
        return System.nanoTime() / 1e9;
    }

    static void sleep(double seconds) throws InterruptedException {
        Thread.sleep((long) (seconds * 1000));
    }

    static KafkaConsumer<byte[], byte[]> consumer(String group, String... more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("partition.assignment.strategy", assignor);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        for (int i = 0; i < more.length; i += 2) {
            settings.put(more[i], more[i + 1]);
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    static class Member extends Thread {
        volatile Map<TopicPartition, Double> worst = new ConcurrentHashMap<>();
        volatile Set<TopicPartition> assignment = Set.of();
        volatile int generation = -1;
        volatile boolean leaving;
        final Map<TopicPartition, Double> last = new HashMap<>();
        final int number;

        Member(int number) {
            this.number = number;
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            String interval = Integer.toString(LONGEST_INTERVAL_MS - STEP_MS * number);
            String name = String.format(Locale.ROOT, "m%02d", number);
            try (var consumer = consumer(group, "client.id", name, "heartbeat.interval.ms", interval)) {
                while (!leaving) {
                    var found = consumer.poll(Duration.ofMillis(100));
                    double now = now();
                    for (TopicPartition partition : found.partitions()) {
                        worst.merge(partition, now - last.getOrDefault(partition, now), Math::max);
                        last.put(partition, now);
                    }
                    assignment = new HashSet<>(consumer.assignment());
                    generation = consumer.groupMetadata().generationId();
                }
            }
        }
    }

    static double firstAssignment(int number) {
        try (var consumer = consumer(group + "-first-" + number)) {
            double start = now();
            while (consumer.assignment().isEmpty()) {
                consumer.poll(Duration.ofMillis(100));
            }
            return now() - start;
        }
    }

    static boolean settled(List<Member> members) {
        int generation = members.get(0).generation;
        int sum = 0;
        for (Member member : members) {
            Set<TopicPartition> share = member.assignment;
            if (member.generation != generation || share.isEmpty()) {
                return false;
            }
            sum += share.size();
        }
        return sum == partitions;
    }

    static double untilSettled(List<Member> members) throws InterruptedException {
        double end = now() + WITHIN_S, since = -1;
        while (true) {
            double now = now();
            if (!settled(members)) {
                since = -1;
            } else if (since < 0) {
                since = now;
            } else if (now - since > SETTLED_FOR_S) {
                return since;
            }
            if (now > end) {
                throw new IllegalStateException("not settled");
            }
            Thread.sleep(10);
        }
    }

    static String during(Runnable event, List<Member> members) throws InterruptedException {
        List<Member> staying = new ArrayList<>(members);
        Map<Member, Set<TopicPartition>> before = new HashMap<>();
        for (Member member : staying) {
            before.put(member, member.assignment);
            member.worst = new ConcurrentHashMap<>();
        }
        double start = now();
        event.run();
        double seconds = untilSettled(members) - start;
        List<Double> gaps = new ArrayList<>();
        for (Member member : staying) {
            for (TopicPartition partition : before.get(member)) {
                if (members.contains(member) && member.assignment.contains(partition)) {
                    gaps.add(member.worst.getOrDefault(partition, WITHIN_S));
                }
            }
        }
        return String.format(Locale.ROOT, "{\"settled_s\": %.4f, \"gaps_s\": [%s]}", seconds,
            gaps.stream().sorted().map(gap -> String.format(Locale.ROOT, "%.4f", gap)).collect(Collectors.joining(", ")));
    }

    public static void main(String[] args) throws Exception {
        servers = args[0];
        topic = args[1];
        group = args[2];
        assignor = args[3];
        partitions = Integer.parseInt(args[4]);
        java.util.Random draw = new java.util.Random(1);
        double[] first = new double[Integer.parseInt(args[7])];
        firstAssignment(first.length);
        for (int i = 0; i < first.length; i++) {
            first[i] = firstAssignment(i);
        }
        double start = now();
        List<Member> members = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(args[5]); number++) {
            members.add(new Member(number));
        }
        double form = untilSettled(members) - start;
        List<String> rounds = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[6]); i++) {
            sleep(APART_AFTER_S + 3 * draw.nextDouble());
            String quiet = during(() -> { }, members);
            String join = during(() -> members.add(new Member(members.size())), members);
            sleep(APART_AFTER_S + 3 * draw.nextDouble());
            String leave = during(() -> members.remove(members.size() - 1).leaving = true, members);
            rounds.add("{\"quiet\": " + quiet + ", \"join\": " + join + ", \"leave\": " + leave + "}");
        }
        for (Member member : members) {
            member.leaving = true;
        }
        for (Member member : members) {
            member.join();
        }
        System.out.printf(Locale.ROOT, "{\"first_s\": %s, \"form_s\": %.4f, \"rounds\": [%s]}%n",
            Arrays.toString(first), form, String.join(", ", rounds));
    }
}
