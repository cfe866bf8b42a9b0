import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a consumer group in one JVM: what tests/support/member_program.py does, by Java's consumer.
 * Arguments: servers, group, topic, assignor class, session and heartbeat in ms, batch, work on a record in us.
 * Commands on standard input: "join NAME PROTOCOL" (classic or consumer), "leave NAME", "vanish NAME" (end without a word to the group).
 */
public class GroupMembers {
    static String[] arguments;
    static final Map<String, Member> members = new ConcurrentHashMap<>();

    public static void main(String[] args) {
        arguments = args;
        say("{\"at\": %.6f, \"member\": \"jvm\", \"what\": \"ready\"}", now());
        Scanner commands = new Scanner(System.in);
        while (commands.hasNext()) {
            String command = commands.next();
            String name = commands.next();
            if (command.equals("join")) {
                Member member = new Member(name, commands.next());
                members.put(name, member);
                member.start();
            } else {
                members.get(name).end(command.equals("vanish"));
            }
        }
        System.exit(0);
    }

    static double now() {
        return System.nanoTime() / 1e9;
    }

    static synchronized void say(String format, Object... values) {
        System.out.println(String.format(Locale.ROOT, format, values));
        System.out.flush();
    }

    static class Member extends Thread implements ConsumerRebalanceListener {
        final String name;
        final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        final KafkaConsumer<byte[], byte[]> consumer;
        volatile boolean ending;
        volatile boolean vanishing;

        Member(String name, String protocol) {
            this.name = name;
            Properties settings = new Properties();
            settings.put("bootstrap.servers", arguments[0]);
            settings.put("group.id", arguments[1]);
            settings.put("client.id", name);
            settings.put("group.protocol", protocol);
            if (protocol.equals("classic")) {
                settings.put("partition.assignment.strategy", arguments[3]);
                settings.put("session.timeout.ms", arguments[4]);
                settings.put("heartbeat.interval.ms", arguments[5]);
            }
            settings.put("max.poll.records", arguments[6]);
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", "false");
            settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
            settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
            consumer = new KafkaConsumer<>(settings);
        }

        void end(boolean silently) {
            vanishing = silently;
            ending = true;
        }

        void tell(String what, String more) {
            say("{\"at\": %.6f, \"member\": \"%s\", \"what\": \"%s\", %s}", now(), name, what, more);
        }

        @Override
        public void run() {
            try {
                tell("started", "\"client\": \"java\"");
                consumer.subscribe(List.of(arguments[2]), this);
                while (!ending) {
                    List<String> found = new ArrayList<>();
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                        found.add("[" + record.partition() + ", " + record.offset() + ", " + new String(record.value()) + "]");
                        positions.put(
                            new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1, name));
                    }
                    if (!found.isEmpty()) {
                        tell("processed", "\"records\": [" + String.join(", ", found) + "]");
                        int us = found.size() * Integer.parseInt(arguments[7]);
                        Thread.sleep(us / 1000, us % 1000 * 1000);
                    }
                    if (!vanishing) {
                        commit(positions.keySet());
                    }
                }
                if (vanishing) {
                    consumer.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP));
                } else {
                    consumer.close();
                    tell("left", "\"client\": \"java\"");
                }
            } catch (GroupIdNotFoundException | InconsistentGroupProtocolException error) {
                tell("error", "\"detail\": \"" + error.getClass().getSimpleName() + "\"");
                consumer.close();
            } catch (Throwable error) {
                error.printStackTrace();
                tell("failed", "\"detail\": \"" + error.toString().replaceAll("[^ -~]|[\"\\\\]", " ") + "\"");
            }
        }

        void commit(Collection<TopicPartition> partitions) {
            Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>(positions);
            wanted.keySet().retainAll(List.copyOf(partitions));
            if (wanted.isEmpty()) {
                return;
            }
            List<String> offsets = new ArrayList<>();
            wanted.forEach((at, entry) -> offsets.add("[" + at.partition() + ", " + entry.offset() + "]"));
            String told = "\"offsets\": [" + String.join(", ", offsets) + "]";
            try {
                consumer.commitSync(wanted);
            } catch (org.apache.kafka.common.KafkaException error) {
                tell("refused", told + ", \"error\": \"" + error.getClass().getSimpleName() + "\", \"detail\": \"\"");
                return;
            }
            tell("committed", told);
            positions.keySet().removeAll(wanted.keySet());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            moved("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (!vanishing) {
                commit(partitions);
            }
            positions.keySet().removeAll(partitions);
            moved("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            positions.keySet().removeAll(partitions);
            moved("lost", partitions);
        }

        void moved(String what, Collection<TopicPartition> partitions) {
            TreeSet<Integer> numbers = new TreeSet<>();
            partitions.forEach(at -> numbers.add(at.partition()));
            tell(what, "\"partitions\": " + numbers);
        }
    }
}
