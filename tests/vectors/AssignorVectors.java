// Prints what Apache Kafka's own assignors make of seeded random groups, one compact JSON object a line.
// Run by hand: java -cp "LIBS/*" tests/vectors/AssignorVectors.java > tests/vectors/assignors.jsonl
//
// "a": assignor; "t": topic -> replica racks by partition (null: no racks at all, then a count); "m": member -> [topics,
// rack, instance id]; "r": member -> topic -> partitions, in the order within the list.

import java.util.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.*;

public class AssignorVectors {
    static String quote(Object o) { return o == null ? "null" : "\"" + o + "\""; }

    public static void main(String[] args) {
        Random random = new Random(20240611);
        for (int i = 0; i < 600; i++) {
            boolean racks = random.nextInt(2) == 0;
            int rackCount = 2 + random.nextInt(3);
            Node[] nodes = new Node[4];
            for (int n = 0; n < nodes.length; n++)
                nodes[n] = new Node(n, "h", 9092, racks && (n > 0 || random.nextInt(6) > 0) ? "r" + n % rackCount : null);
            List<PartitionInfo> infos = new ArrayList<>();
            List<String> topics = new ArrayList<>(), topicsJson = new ArrayList<>();
            int topicCount = 1 + random.nextInt(4), common = 1 + random.nextInt(7);
            for (int t = 0; t < topicCount; t++) {
                String topic = "t" + random.nextInt(14);
                if (topics.contains(topic)) continue;
                topics.add(topic);
                int count = random.nextInt(3) == 0 ? common : random.nextInt(8);
                List<String> partitionRacks = new ArrayList<>();
                for (int p = 0; p < count; p++) {
                    List<Node> replicas = new ArrayList<>(List.of(nodes));
                    Collections.shuffle(replicas, random);
                    replicas = replicas.subList(0, 1 + random.nextInt(2));
                    infos.add(new PartitionInfo(topic, p, replicas.get(0), replicas.toArray(new Node[0]), new Node[0]));
                    List<String> ids = new ArrayList<>();
                    for (Node replica : replicas) ids.add(quote(replica.rack()));
                    partitionRacks.add("[" + String.join(",", ids) + "]");
                }
                topicsJson.add(quote(topic) + ":" + (racks ? "[" + String.join(",", partitionRacks) + "]" : "" + count));
            }
            Cluster cluster = new Cluster("c", List.of(nodes), infos, Set.of(), Set.of());
            Map<String, Subscription> members = new TreeMap<>();
            List<String> membersJson = new ArrayList<>();
            boolean all = random.nextInt(2) == 0;
            for (int m = 0, n = 1 + random.nextInt(6); m < n; m++) {
                String id = "c" + random.nextInt(20);
                if (members.containsKey(id)) continue;
                List<String> mine = new ArrayList<>();
                for (String topic : topics) if (all || random.nextInt(3) > 0) mine.add(topic);
                if (random.nextInt(12) == 0) mine.add("absent");
                String rack = racks && random.nextInt(6) > 0 ? "r" + random.nextInt(rackCount + 1) : null;
                String instance = random.nextInt(5) == 0 ? "i" + random.nextInt(40) + "-" + m : null;
                Subscription subscription =
                    new Subscription(mine, null, List.of(), -1, Optional.ofNullable(rack));
                subscription.setGroupInstanceId(Optional.ofNullable(instance));
                members.put(id, subscription);
                List<String> names = new ArrayList<>();
                for (String topic : mine) names.add(quote(topic));
                membersJson.add(quote(id) + ":[[" + String.join(",", names) + "]," + quote(rack) + "," + quote(instance) + "]");
            }
            ConsumerPartitionAssignor assignor = i % 2 == 0 ? new RangeAssignor() : new RoundRobinAssignor();
            Map<String, Assignment> result =
                assignor.assign(cluster, new GroupSubscription(members)).groupAssignment();
            List<String> resultJson = new ArrayList<>();
            for (Map.Entry<String, Assignment> entry : new TreeMap<>(result).entrySet()) {
                Map<String, List<String>> byTopic = new TreeMap<>();
                for (TopicPartition tp : entry.getValue().partitions())
                    byTopic.computeIfAbsent(tp.topic(), k -> new ArrayList<>()).add("" + tp.partition());
                List<String> parts = new ArrayList<>();
                byTopic.forEach((topic, list) -> parts.add(quote(topic) + ":[" + String.join(",", list) + "]"));
                resultJson.add(quote(entry.getKey()) + ":{" + String.join(",", parts) + "}");
            }
            System.out.println("{\"a\":" + quote(assignor.name()) + ",\"t\":{" + String.join(",", topicsJson) + "},\"m\":{"
                + String.join(",", membersJson) + "},\"r\":{" + String.join(",", resultJson) + "}}");
        }
    }
}
