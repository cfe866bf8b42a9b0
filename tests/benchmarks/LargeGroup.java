import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java's consumers doing what tests/benchmarks/large_group.py does.
 * Arguments: servers, topic, group, protocol, partitions, members, idle (true or false). Prints what it measured as one line of JSON.
 */
public class LargeGroup {
    static final double SETTLED_FOR_S = 1, WITHIN_S = 120, IDLE_S = 10;
    static boolean idle;
    static String servers, topic, group, protocol;
    static int partitions;
    static volatile double[] last, worst;
    static final List<Member> members = new ArrayList<>();

    static double now() {
        return System.nanoTime() / 1e9;
    }

    static class Member extends Thread {
        volatile Set<Integer> share = Set.of();
        volatile boolean leaving;
        final int number;

        Member(int number) {
            this.number = number;
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", servers);
            settings.put("group.id", group);
            settings.put("group.protocol", protocol);
            if (protocol.equals("classic")) {
                settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
            }
            settings.put("client.id", String.format(Locale.ROOT, "m%02d", number));
            if (!idle) {
                settings.put("fetch.min.bytes", "1000000");
                settings.put("fetch.max.wait.ms", "200");
            }
            settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
            settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
                consumer.subscribe(List.of(topic));
                while (!leaving) {
                    var found = consumer.poll(Duration.ofMillis(200));
                    double now = now();
                    for (TopicPartition partition : found.partitions()) {
                        int at = partition.partition();
                        worst[at] = Math.max(worst[at], now - last[at]);
                        last[at] = now;
                    }
                    share = consumer.assignment().stream().map(TopicPartition::partition).collect(Collectors.toSet());
                }
            }
            share = Set.of();
        }
    }

    static boolean settled() {
        int sum = 0, least = Integer.MAX_VALUE, most = 0;
        Set<Integer> all = new HashSet<>();
        for (Member member : members) {
            Set<Integer> share = member.share;
            sum += share.size();
            least = Math.min(least, share.size());
            most = Math.max(most, share.size());
            all.addAll(share);
        }
        return sum == partitions && all.size() == partitions && most - least <= 1;
    }

    static double untilSettled() throws InterruptedException {
        double end = now() + WITHIN_S, since = 0;
        while (true) {
            double now = now();
            if (!settled()) {
                since = 0;
            } else if (since == 0) {
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

    static String during(Runnable event) throws InterruptedException {
        double start = now();
        worst = new double[partitions];
        event.run();
        double seconds = untilSettled() - start;
        double now = now();
        double[] gaps = new double[partitions];
        for (int i = 0; i < partitions; i++) {
            gaps[i] = Math.max(worst[i], now - last[i]);
        }
        Arrays.sort(gaps);
        return String.format(Locale.ROOT, "{\"settled_s\": %.4f, \"gaps_s\": [%s]}", seconds,
            Arrays.stream(gaps).mapToObj(gap -> String.format(Locale.ROOT, "%.4f", gap)).collect(Collectors.joining(", ")));
    }

    public static void main(String[] args) throws Exception {
        servers = args[0];
        topic = args[1];
        group = args[2];
        protocol = args[3];
        partitions = Integer.parseInt(args[4]);
        idle = Boolean.parseBoolean(args[6]);
        last = new double[partitions];
        worst = new double[partitions];
        double start = now();
        for (int number = 0; number < Integer.parseInt(args[5]); number++) {
            members.add(new Member(number));
        }
        double form = untilSettled() - start;
        String more;
        if (!idle) {
            Thread.sleep(6000);
            String join = during(() -> members.add(new Member(members.size())));
            Thread.sleep(6000);
            String leave = during(() -> members.remove(members.size() - 1).leaving = true);
            more = "\"join\": " + join + ", \"leave\": " + leave;
        } else {
            System.out.println("settled");
            System.out.flush();
            Thread.sleep(3000);
            var bean = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            double cpu = bean.getProcessCpuTime() / 1e9;
            Thread.sleep((long) (1000 * IDLE_S));
            more = String.format(Locale.ROOT, "\"idle_cpu\": %.4f", (bean.getProcessCpuTime() / 1e9 - cpu) / IDLE_S);
        }
        System.out.printf(Locale.ROOT, "{\"form_s\": %.4f, %s}%n", form, more);
        System.out.flush();
        for (Member member : members) {
            member.leaving = true;
        }
        for (Member member : members) {
            member.join();
        }
    }
}
