// Prints what Apache Kafka's coordinator computes for consumer groups (KIP-848), one JSON object a line.
// Run by tests/vectors/make_consumer_groups.py, which keeps the lines in consumer_groups.jsonl.gz.
//
// {"hash": [topic id, name, racks of each partition, value]}: Utils.computeTopicHash; {"group": [values by name, value]}.
// {"a": assignor, "h": homogeneous, "t": topic id -> partitions, "m": [[id, instance, topic ids, target]], "r": result}:
// members and topics are in the order in which the assignor saw them.
// {"c": [state, member epoch, previous one, assigned, pending revocation, ids of subscribed topics, target epoch, target,
// partitions held by anybody, owned or null, whether the subscription has changed], "r": the same five, or null for a
// member that is fenced}: CurrentAssignmentBuilder. Partitions that a member has are with the epochs they came in.

import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.FencedMemberEpochException;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder;

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

    static Set<Integer> some(int of, double chance) {
        Set<Integer> found = new TreeSet<>();
        for (int p = 0; p < of; p++) if (random.nextDouble() < chance) found.add(p);
        return found;
    }

    static String partitions(Map<Uuid, ? extends Collection<Integer>> parts) {
        return parts.entrySet().stream().map(e -> "\"" + hex(e.getKey()) + "\": " + new TreeSet<>(e.getValue()))
            .sorted().collect(Collectors.joining(", ", "{", "}"));
    }

    static String epochs(Map<Uuid, Map<Integer, Integer>> parts) {
        return parts.entrySet().stream().map(e -> "\"" + hex(e.getKey()) + "\": " + new TreeMap<>(e.getValue()).entrySet()
            .stream().map(one -> "[" + one.getKey() + ", " + one.getValue() + "]").collect(Collectors.joining(", ", "[", "]")))
            .sorted().collect(Collectors.joining(", ", "{", "}"));
    }

    static String five(ConsumerGroupMember member) {
        return String.format("%d, %d, %d, %s, %s", member.state().value(), member.memberEpoch(), member.previousMemberEpoch(),
            epochs(member.assignedPartitions()), epochs(member.partitionsPendingRevocation()));
    }

    static void step() {
        int topics = 1 + random.nextInt(3), size = 1 + random.nextInt(5), epoch = 5 + random.nextInt(3);
        Map<String, Uuid> ids = new TreeMap<>();
        for (int t = 0; t < topics; t++) ids.put("t" + t, uuid());
        MemberState state = MemberState.values()[random.nextInt(random.nextInt(4) == 0 ? 4 : 3)];
        Map<Uuid, Map<Integer, Integer>> assigned = new HashMap<>(), pending = new HashMap<>();
        Map<Uuid, Set<Integer>> target = new HashMap<>(), held = new HashMap<>();
        List<ConsumerGroupHeartbeatRequestData.TopicPartitions> owned = new ArrayList<>();
        Set<String> subscribed = new TreeSet<>();
        boolean changed = random.nextInt(4) == 0, agrees = random.nextBoolean();
        for (String name : ids.keySet()) {
            Uuid id = ids.get(name);
            if (!changed || random.nextBoolean()) subscribed.add(name);
            Set<Integer> taken = some(size, 0.3), mine = some(size, 0.4), leaving = some(size, 0.3);
            leaving.removeAll(mine);
            if (state != MemberState.UNREVOKED_PARTITIONS && state != MemberState.UNKNOWN) leaving.clear();
            for (int p : mine) assigned.computeIfAbsent(id, k -> new HashMap<>()).put(p, 1 + random.nextInt(4));
            for (int p : leaving) pending.computeIfAbsent(id, k -> new HashMap<>()).put(p, 1 + random.nextInt(4));
            taken.addAll(mine);
            taken.addAll(leaving);
            if (!taken.isEmpty()) held.put(id, taken);
            Set<Integer> wanted = agrees ? new TreeSet<>(mine) : some(size, 0.5);
            if (!wanted.isEmpty()) target.put(id, wanted);
            Set<Integer> says = new TreeSet<>(mine);
            if (random.nextBoolean()) says.addAll(leaving);
            if (random.nextInt(3) == 0) says.retainAll(wanted);
            if (random.nextInt(5) == 0) says.clear();
            if (!says.isEmpty()) {
                owned.add(new ConsumerGroupHeartbeatRequestData.TopicPartitions().setTopicId(id).setPartitions(new ArrayList<>(says)));
            }
        }
        boolean silent = random.nextInt(3) == 0;
        int at = random.nextInt(3) == 0 ? epoch : epoch - 1;
        ConsumerGroupMember member = new ConsumerGroupMember.Builder("m").setState(state).setMemberEpoch(at)
            .setPreviousMemberEpoch(at - 1).setSubscribedTopicNames(new ArrayList<>(subscribed)).setAssignedPartitions(assigned)
            .setPartitionsPendingRevocation(pending).build();
        CoordinatorMetadataImage image = CoordinatorMetadataImage.class.cast(Proxy.newProxyInstance(
            CoordinatorMetadataImage.class.getClassLoader(), new Class<?>[] {CoordinatorMetadataImage.class}, (self, method, args) -> {
                if (!method.getName().equals("topicMetadata")) throw new UnsupportedOperationException(method.getName());
                for (var one : ids.entrySet()) {
                    if (one.getKey().equals(args[0]) || one.getValue().equals(args[0])) {
                        return Optional.of(fake(CoordinatorMetadataImage.TopicMetadata.class,
                            Map.of("id", one.getValue(), "name", one.getKey(), "partitionCount", size)));
                    }
                }
                return Optional.empty();
            }));
        String after;
        try {
            after = "[" + five(new CurrentAssignmentBuilder(member).withMetadataImage(image)
                .withTargetAssignment(epoch, new Assignment(target)).withHasSubscriptionChanged(changed)
                .withResolvedRegularExpressions(Map.of())
                .withCurrentPartitionEpoch((id, p) -> held.getOrDefault(id, Set.of()).contains(p) ? 3 : -1)
                .withOwnedTopicPartitions(silent ? null : owned).build()) + "]";
        } catch (FencedMemberEpochException error) {
            after = "null";
        }
        String told = owned.stream().map(one -> "[\"" + hex(one.topicId()) + "\", " + one.partitions() + "]")
            .collect(Collectors.joining(", ", "[", "]"));
        System.out.printf("{\"c\": [%s, %s, %d, %s, %s, %s, %b], \"r\": %s}%n", five(member),
            quoted(subscribed.stream().map(ids::get).map(ConsumerGroupVectors::hex).toList()), epoch, partitions(target),
            partitions(held), silent ? "null" : told, changed, after);
    }

    public static void main(String[] args) {
        hashes();
        for (int n = 0; n < 300; n++) group(n % 4 > 0);
        for (int n = 0; n < 1500; n++) step();
    }
}
