// Prints what Apache Kafka's CooperativeStickyAssignor makes of seeded random groups that change, one JSON object a line.
// Run by tests/vectors/make_sticky.py, which keeps the lines in sticky.jsonl.gz.
//
// "t": topic -> number of partitions, or for each partition the digits of its replicas' racks ("-": a broker without one);
// "m": member -> [digits of its topics, generation, generation in the user data or null, rack digit or null, {topic:
// partitions that it owns, base 36}]; "r": topic -> the owner of each partition, "." for none; "h": 1 if the members' ids
// are such that the order of Java's hash maps is not the order of the ids, see id().

import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.common.*;

public class StickyVectors {
    static final Random random = new Random(20250302);
    static int skipped = 0, written = 0;

    // Hash maps of up to 12 entries from "a" to "o", or of 13 to 24 from "a" to "z", iterate in the order of the letters.
    static String id(char member, boolean hashed) {
        return hashed ? "m" + ((member - 'a') * 7919 + 13) % 1000 : "" + member;
    }

    static class Member {
        Set<Integer> topics = new TreeSet<>();
        int generation = -1;
        Integer rack;
        List<TopicPartition> owned = new ArrayList<>();
    }

    static Set<Integer> someTopics(int count, boolean equal) {
        Set<Integer> chosen = new TreeSet<>();
        for (int t = 0; t < count; t++) if (equal || random.nextInt(3) > 0) chosen.add(t);
        return chosen;
    }

    static String racksOf(int rackCount) {
        Set<Integer> racks = new TreeSet<>();
        for (int i = 0, n = 1 + random.nextInt(2); i < n; i++) racks.add(random.nextInt(rackCount));
        StringBuilder text = new StringBuilder();
        for (int rack : racks) text.append(rack);
        return random.nextInt(12) == 0 ? "-" : text.toString();
    }

    public static void main(String[] args) {
        while (written < 3600) group(written >= 3000);
        System.err.println(skipped + " skipped");
    }

    static void group(boolean hashed) {
        int topicCount = 1 + random.nextInt(5), rackCount = 2 + random.nextInt(3);
        boolean equal = random.nextInt(2) == 0, racks = random.nextInt(3) == 0, old = random.nextInt(6) == 0;
        boolean many = random.nextInt(10) == 0;
        List<List<String>> topics = new ArrayList<>();
        for (int t = 0; t < topicCount; t++) {
            topics.add(new ArrayList<>());
            for (int p = random.nextInt(9); p > 0; p--) topics.get(t).add(racksOf(rackCount));
        }
        TreeMap<Character, Member> members = new TreeMap<>();
        for (int step = 0, generation = 1, steps = 2 + random.nextInt(4); step < steps; step++, generation++) {
            change(members, step, topicCount, equal, racks ? rackCount : 0, many);
            // Kafka overlooks that members without topics differ from others, if they come first: not asked for here
            char first = Collections.min(members.keySet(), Comparator.comparing((Character name) -> id(name, hashed)));
            if (members.get(first).topics.isEmpty()) members.get(first).topics.add(0);
            if (step > 0 && random.nextInt(5) == 0) {
                List<String> grown = topics.get(random.nextInt(topicCount));
                while (grown.size() < 11 && random.nextInt(3) > 0) grown.add(racksOf(rackCount));
            }
            if (step > 0 && !old && random.nextInt(4) == 0) doubleClaims(members, topics);
            Map<Character, List<TopicPartition>> result = assign(topics, members, racks, old, hashed);
            if (result == null) return;
            for (Map.Entry<Character, Member> entry : members.entrySet()) {
                if (random.nextInt(8) == 0) continue;  // it missed this generation
                entry.getValue().owned = new ArrayList<>(result.get(entry.getKey()));
                entry.getValue().generation = generation;
            }
            if (old) disjoin(members);
        }
    }

    // Members leave, join and change their subscriptions.
    static void change(TreeMap<Character, Member> members, int step, int topicCount, boolean equal, int racks, boolean many) {
        if (step > 0) members.keySet().removeIf(member -> members.size() > 1 && random.nextInt(5) == 0);
        int size = many ? 13 + random.nextInt(8) : step == 0 ? 1 + random.nextInt(8) : random.nextInt(12);
        while (members.size() < size && (step == 0 || many || random.nextInt(3) > 0)) {
            char name = (char) ('a' + random.nextInt(many ? 26 : 15));
            if (members.containsKey(name)) continue;
            Member member = new Member();
            member.topics = someTopics(topicCount, equal);
            if (racks > 0 && random.nextInt(6) > 0) member.rack = random.nextInt(racks + 1);
            members.put(name, member);
        }
        if (many) while (members.size() < 13) members.put((char) ('a' + random.nextInt(26)), new Member());
        if (!equal && random.nextInt(3) == 0) {
            Member member = new ArrayList<>(members.values()).get(random.nextInt(members.size()));
            member.topics = someTopics(topicCount, false);
            boolean keeps = random.nextInt(2) == 0 && members.values().stream().allMatch(m -> m.generation == member.generation);
            if (!keeps) member.owned.removeIf(tp -> !member.topics.contains(tp.topic().charAt(1) - '0'));
        }
    }

    // Some members say that they own what others own, or what nobody does.
    static void doubleClaims(TreeMap<Character, Member> members, List<List<String>> topics) {
        for (Member member : members.values())
            for (int t : member.topics)
                for (int p = 0; p < topics.get(t).size(); p++) {
                    TopicPartition partition = new TopicPartition("t" + t, p);
                    if (random.nextInt(8) == 0 && !member.owned.contains(partition)) {
                        member.owned.add(partition);
                        if (member.generation < 0) member.generation = random.nextInt(3) - 1;
                    }
                }
    }

    static void disjoin(TreeMap<Character, Member> members) {
        Set<TopicPartition> seen = new HashSet<>();
        for (Member member : members.values()) member.owned.removeIf(tp -> !seen.add(tp));
    }

    static Map<Character, List<TopicPartition>> assign(
            List<List<String>> topics, TreeMap<Character, Member> members, boolean racks, boolean old, boolean hashed) {
        List<Node> nodes = new ArrayList<>();
        for (int n = 0; n < 5; n++) nodes.add(new Node(n, "h", 9092, racks && n < 4 ? "r" + n : null));
        List<PartitionInfo> infos = new ArrayList<>();
        List<String> topicsJson = new ArrayList<>(), membersJson = new ArrayList<>(), resultJson = new ArrayList<>();
        for (int t = 0; t < topics.size(); t++) {
            for (int p = 0; p < topics.get(t).size(); p++) {
                String digits = topics.get(t).get(p);
                Node[] replicas = digits.chars().mapToObj(c -> nodes.get(c == '-' ? 4 : c - '0')).toArray(Node[]::new);
                infos.add(new PartitionInfo("t" + t, p, replicas[0], replicas, new Node[0]));
            }
            topicsJson.add("\"t" + t + "\":" + (racks ? "[" + String.join(",",
                topics.get(t).stream().map(digits -> "\"" + digits + "\"").toList()) + "]" : "" + topics.get(t).size()));
        }
        Map<String, Subscription> subscriptions = new TreeMap<>();
        Map<String, Character> letters = new HashMap<>();
        members.forEach((name, member) -> {
            Integer data = !old ? null : (Integer) member.generation;
            ByteBuffer userData = data == null ? null : ByteBuffer.allocate(4).putInt(0, data);
            List<String> names = member.topics.stream().map(t -> "t" + t).toList();
            Subscription subscription = new Subscription(names, userData, List.copyOf(member.owned),
                old ? -1 : member.generation, Optional.ofNullable(member.rack).map(rack -> "r" + rack));
            letters.put(id(name, hashed), name);
            subscriptions.put(id(name, hashed), subscription);
            StringBuilder digits = new StringBuilder();
            for (int t : member.topics) digits.append(t);
            Map<String, StringBuilder> owned = new TreeMap<>();
            for (TopicPartition tp : member.owned)
                owned.computeIfAbsent(tp.topic(), k -> new StringBuilder()).append(Character.forDigit(tp.partition(), 36));
            List<String> ownedJson = new ArrayList<>();
            owned.forEach((topic, text) -> ownedJson.add("\"" + topic + "\":\"" + text + "\""));
            membersJson.add("\"" + name + "\":[\"" + digits + "\"," + (old ? -1 : member.generation) + "," + data + ","
                + member.rack + ",{" + String.join(",", ownedJson) + "}]");
        });
        Cluster cluster = new Cluster("c", nodes, infos, Set.of(), Set.of());
        Map<Character, List<TopicPartition>> result = new HashMap<>();
        try {
            new CooperativeStickyAssignor().assign(cluster, new GroupSubscription(subscriptions)).groupAssignment()
                .forEach((member, assignment) -> result.put(letters.get(member), assignment.partitions()));
        } catch (RuntimeException problem) {
            skipped++;
            return null;
        }
        char[][] owners = new char[topics.size()][];
        for (int t = 0; t < owners.length; t++) Arrays.fill(owners[t] = new char[topics.get(t).size()], '.');
        for (Map.Entry<Character, List<TopicPartition>> entry : result.entrySet())
            for (TopicPartition tp : entry.getValue()) {
                int t = tp.topic().charAt(1) - '0';
                if (!members.get(entry.getKey()).topics.contains(t) || owners[t][tp.partition()] != '.') {
                    skipped++;  // given to a member that did not subscribe, or twice
                    return null;
                }
                owners[t][tp.partition()] = entry.getKey();
            }
        for (int t = 0; t < owners.length; t++) resultJson.add("\"t" + t + "\":\"" + new String(owners[t]) + "\"");
        System.out.println("{\"h\":" + (hashed ? 1 : 0) + ",\"t\":{" + String.join(",", topicsJson) + "},\"m\":{"
            + String.join(",", membersJson) + "},\"r\":{" + String.join(",", resultJson) + "}}");
        written++;
        return result;
    }
}
