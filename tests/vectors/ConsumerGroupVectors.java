// Prints what Apache Kafka's coordinator computes for consumer groups (KIP-848), one JSON object a line.
// Run by tests/vectors/make_consumer_groups.py, which keeps the lines in consumer_groups.jsonl.gz.
//
// {"hash": [topic id, name, racks of each partition, value]}: Utils.computeTopicHash; {"group": [values by name, value]}.
// {"a": assignor, "h": homogeneous, "t": topic id -> partitions, "m": [[id, instance, topic ids, target]], "r": result}:
// members and topics are in the order in which the assignor saw them.

import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

public class ConsumerGroupVectors {
    static final Random random = new Random(20260407);

    static Uuid uuid() {
        return new Uuid(random.nextLong(), random.nextLong());
    }

    static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    static <T> T fake(Class<T> type, Map<String, Object> answers) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, args) -> {
            Object answer = answers.get(method.getName());
            return answer instanceof List && method.getName().equals("partitionRacks")
                ? new ArrayList<>((List<?>) ((List<?>) answer).get((Integer) args[0])) : answer;
        }));
    }

    static String quoted(Collection<String> texts) {
        return texts.stream().map(text -> "\"" + text + "\"").collect(Collectors.joining(", ", "[", "]"));
    }

    static void hashes() {
        Map<String, Long> all = new HashMap<>();
        for (int n = 0; n < 60; n++) {
            Uuid id = uuid();
            String name = "topic-".repeat(random.nextInt(6)) + (char) ('a' + random.nextInt(26)) + n;
            List<List<String>> racks = new ArrayList<>();
            for (int p = 0, count = n < 40 ? n : random.nextInt(400); p < count; p++) {
                List<String> names = new ArrayList<>();
                for (int r = n % 3 == 0 ? 0 : random.nextInt(4); r > 0; r--) names.add("rack" + "s".repeat(r) + random.nextInt(9));
                racks.add(names);
            }
            CoordinatorMetadataImage.TopicMetadata topic = fake(CoordinatorMetadataImage.TopicMetadata.class,
                Map.of("id", id, "name", name, "partitionCount", racks.size(), "partitionRacks", racks));
            CoordinatorMetadataImage image = fake(CoordinatorMetadataImage.class, Map.of("topicMetadata", Optional.of(topic)));
            long value = Utils.computeTopicHash(name, image);
            all.put(name, value);
            String lists = racks.stream().map(ConsumerGroupVectors::quoted).collect(Collectors.joining(", "));
            System.out.printf("{\"hash\": [\"%s\", \"%s\", [%s], %d]}%n", hex(id), name, lists, value);
            String values = all.entrySet().stream().map(e -> "\"" + e.getKey() + "\": " + e.getValue()).collect(Collectors.joining(", "));
            System.out.printf("{\"group\": [{%s}, %d]}%n", values, Utils.computeGroupHash(all));
        }
    }

    static class Member {
        String instance;
        Set<Uuid> topics = new HashSet<>();
        Map<Uuid, Set<Integer>> target = new LinkedHashMap<>();
    }

    static String json(Map<Uuid, Set<Integer>> assignment) {
        return assignment.entrySet().stream().map(e -> "\"" + hex(e.getKey()) + "\": " + new TreeSet<>(e.getValue()))
            .collect(Collectors.joining(", ", "{", "}"));
    }

    static void group(boolean uniform) {
        Map<Uuid, Integer> topics = new LinkedHashMap<>();
        for (int t = 1 + random.nextInt(5); t > 0; t--) topics.put(uuid(), random.nextInt(10));
        boolean equal = random.nextBoolean();
        Map<String, Member> members = new LinkedHashMap<>();
        int made = 0;
        for (int step = 3 + random.nextInt(4); step > 0; step--) {
            for (int n = random.nextInt(4); n > 0; n--) {
                Member member = new Member();
                if (random.nextInt(3) == 0) member.instance = "i" + random.nextInt(1000) + "-" + made;
                members.put("m" + random.nextInt(1000) + "-" + made++, member);
            }
            if (!members.isEmpty() && random.nextInt(3) == 0)
                members.remove(new ArrayList<>(members.keySet()).get(random.nextInt(members.size())));
            if (random.nextInt(3) == 0) topics.replaceAll((id, count) -> count + random.nextInt(3));
            if (random.nextInt(6) == 0) topics.put(uuid(), random.nextInt(8));
            if (members.isEmpty()) continue;
            for (Member member : members.values()) {
                if (equal) member.topics = new HashSet<>(topics.keySet());
                else if (member.topics.isEmpty() || random.nextInt(4) == 0) {
                    member.topics = new HashSet<>();
                    for (Uuid id : topics.keySet()) if (random.nextInt(3) > 0) member.topics.add(id);
                }
            }
            Map<String, MemberSubscriptionAndAssignmentImpl> specs = new LinkedHashMap<>();
            Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
            members.forEach((id, member) -> {
                member.target.forEach((topic, partitions) -> partitions.forEach(
                    p -> inverted.computeIfAbsent(topic, x -> new HashMap<>()).put(p, id)));
                specs.put(id, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.ofNullable(member.instance),
                    member.topics, new Assignment(Collections.unmodifiableMap(member.target))));
            });
            SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
                public int numPartitions(Uuid id) { return topics.getOrDefault(id, -1); }
                public Set<String> racksForPartition(Uuid id, int p) { return Set.of(); }
            };
            GroupSpecImpl spec = new GroupSpecImpl(specs, equal ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, inverted);
            GroupAssignment made2 = uniform ? new UniformAssignor().assign(spec, describer) : new RangeAssignor().assign(spec, describer);
            StringBuilder text = new StringBuilder();
            members.forEach((id, member) -> text.append(text.length() > 0 ? ", " : "").append(String.format("[\"%s\", %s, %s, %s]", id,
                member.instance == null ? "null" : "\"" + member.instance + "\"",
                quoted(new HashSet<>(member.topics).stream().map(ConsumerGroupVectors::hex).collect(Collectors.toList())), json(member.target))));
            StringBuilder result = new StringBuilder();
            members.forEach((id, member) -> {
                Map<Uuid, Set<Integer>> mine = made2.members().containsKey(id) ? made2.members().get(id).partitions() : Map.of();
                result.append(result.length() > 0 ? ", " : "").append("\"" + id + "\": " + json(mine));
                member.target = new LinkedHashMap<>();
                mine.forEach((topic, partitions) -> member.target.put(topic, new TreeSet<>(partitions)));
            });
            String counts = topics.entrySet().stream().map(e -> "\"" + hex(e.getKey()) + "\": " + e.getValue()).collect(Collectors.joining(", "));
            System.out.printf("{\"a\": \"%s\", \"h\": %b, \"t\": {%s}, \"m\": [%s], \"r\": {%s}}%n",
                uniform ? "uniform" : "range", equal, counts, text, result);
        }
    }

    public static void main(String[] args) {
        hashes();
        for (int n = 0; n < 300; n++) group(n % 4 > 0);
    }
}
