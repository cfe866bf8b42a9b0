// Makes groups of every kind on an Apache Kafka, so that its __consumer_offsets holds every kind of record, and prints
// what Kafka's admin client says of them as one line of JSON. Members are left in their groups: it ends by a kill.
// Argument: bootstrap servers. See make_offsets_log.py.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class OffsetsLog {
    static final Duration SHORTLY = Duration.ofMillis(100);
    static final TopicPartition O0 = tp("orders", 0), O1 = tp("orders", 1), O2 = tp("orders", 2);
    static final TopicPartition C0 = tp("clicks", 0), C1 = tp("clicks", 1);
    static String servers;
    static Admin admin;
    static final Map<String, List<Consumer<byte[], byte[]>>> groups = new TreeMap<>();

    static TopicPartition tp(String topic, int partition) {
        return new TopicPartition(topic, partition);
    }

    static Properties settings(String... pairs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        for (int i = 0; i < pairs.length; i += 2) {
            settings.put(pairs[i], pairs[i + 1]);
        }
        return settings;
    }

    static Consumer<byte[], byte[]> member(String group, String clientId, String topic, String... more) {
        Properties settings = settings(more);
        settings.put("group.id", group);
        settings.put("client.id", clientId);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (!settings.containsKey("group.protocol")) {
            settings.put("heartbeat.interval.ms", "200");
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(topic));
        groups.computeIfAbsent(group, name -> new ArrayList<>()).add(consumer);
        return consumer;
    }

    /** Poll a group's members in turn until each has a part and all parts together are everything. */
    static void settle(String group, int partitions) {
        List<Consumer<byte[], byte[]>> members = groups.get(group);
        while (true) {
            Set<Integer> generations = new HashSet<>();
            Set<TopicPartition> everything = new HashSet<>();
            boolean allHaveSome = true;
            for (Consumer<byte[], byte[]> member : members) {
                member.poll(SHORTLY);
                generations.add(member.groupMetadata().generationId());
                everything.addAll(member.assignment());
                allHaveSome &= !member.assignment().isEmpty();
            }
            if (generations.size() == 1 && allHaveSome && everything.size() == partitions) {
                return;
            }
        }
    }

    static OffsetAndMetadata offset(long offset, String metadata) {
        return new OffsetAndMetadata(offset, Optional.of(0), metadata);
    }

    /** Each member commits for what it has: 10 times the partition's number plus 1. */
    static void commit(String group, String metadata) {
        for (Consumer<byte[], byte[]> member : groups.get(group)) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new TreeMap<>(java.util.Comparator.comparing(TopicPartition::toString));
            for (TopicPartition partition : member.assignment()) {
                offsets.put(partition, offset(10L * partition.partition() + 1, metadata));
            }
            member.commitSync(offsets);
        }
    }

    static void classicGroups() throws Exception {
        member("dynamic", "reader-1", "orders");
        settle("dynamic", 3);
        commit("dynamic", "");
        member("dynamic", "reader-2", "orders");
        settle("dynamic", 3);
        commit("dynamic", "checked by \"Ann\", \u00fc\u20ac\ud83d\ude80");

        String sticky = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
        member("static", "worker", "orders", "group.instance.id", "i-1", "partition.assignment.strategy", sticky);
        member("static", "worker", "orders", "group.instance.id", "i-2", "partition.assignment.strategy", sticky);
        settle("static", 3);
        commit("static", "s");

        member("left", "guest", "clicks");
        settle("left", 2);
        commit("left", "last words");
        groups.remove("left").get(0).close();

        admin.alterConsumerGroupOffsets("tools", Map.of(C0, offset(4, "by hand"), C1, offset(6, ""))).all().get();
        admin.deleteConsumerGroupOffsets("tools", Set.of(C1)).all().get();

        member("gone", "guest", "clicks");
        settle("gone", 2);
        commit("gone", "");
        groups.remove("gone").get(0).close();
        admin.deleteConsumerGroups(Set.of("gone")).all().get();
    }

    static KafkaProducer<byte[], byte[]> transactions() throws Exception {
        ConsumerGroupMetadata group = new ConsumerGroupMetadata("transactional");
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings("transactional.id", "mover", "transaction.timeout.ms", "900000"));
        producer.initTransactions();
        producer.beginTransaction();
        producer.sendOffsetsToTransaction(Map.of(C0, offset(3, "committed"), C1, offset(5, "")), group);
        producer.commitTransaction();
        producer.beginTransaction();
        producer.sendOffsetsToTransaction(Map.of(C0, offset(99, "aborted")), group);
        producer.abortTransaction();
        producer.beginTransaction();
        producer.sendOffsetsToTransaction(Map.of(C1, offset(7, "still open")), group);
        return producer;
    }

    static KafkaShareConsumer<byte[], byte[]> newerGroups() {
        member("modern", "new-1", "orders", "group.protocol", "consumer");
        member("modern", "new-2", "orders", "group.protocol", "consumer", "group.instance.id", "n-2");
        settle("modern", 3);
        commit("modern", "new");
        KafkaConsumer<byte[], byte[]> byPattern = new KafkaConsumer<>(settings(
            "group.id", "pattern", "client.id", "new-3", "group.protocol", "consumer", "enable.auto.commit", "false"));
        byPattern.subscribe(new org.apache.kafka.clients.consumer.SubscriptionPattern("cl.*"));
        groups.put("pattern", new ArrayList<>(List.of(byPattern)));
        settle("pattern", 2);
        KafkaShareConsumer<byte[], byte[]> sharing =
            new KafkaShareConsumer<>(settings("group.id", "shared", "client.id", "sharer"));
        sharing.subscribe(List.of("clicks"));
        for (int i = 0; i < 30; i++) {
            sharing.poll(SHORTLY);
        }
        return sharing;
    }

    static Map<String, Object> described(String group, ConsumerGroupDescription description) throws Exception {
        Map<String, Object> told = new TreeMap<>();
        told.put("state", description.groupState().toString());
        told.put("assignor", description.partitionAssignor());
        List<Map<String, Object>> members = new ArrayList<>();
        for (MemberDescription member : description.members()) {
            Map<String, Object> one = new TreeMap<>();
            one.put("member_id", member.consumerId());
            one.put("instance_id", member.groupInstanceId().orElse(null));
            one.put("client_id", member.clientId());
            one.put("host", member.host());
            one.put("assignment", member.assignment().topicPartitions().stream().map(TopicPartition::toString).sorted().toList());
            members.add(one);
        }
        told.put("members", members);
        if (groups.containsKey(group)) {
            told.put("generation", groups.get(group).get(0).groupMetadata().generationId());
        }
        Map<String, Object> offsets = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((partition, committed) ->
            offsets.put(partition.toString(), List.of(committed.offset(), committed.metadata(), committed.leaderEpoch().orElse(-1))));
        told.put("offsets", offsets);
        return told;
    }

    public static void main(String[] args) throws Exception {
        servers = args[0];
        admin = Admin.create(settings());
        admin.createTopics(List.of(new NewTopic("orders", 3, (short) 1), new NewTopic("clicks", 2, (short) 1))).all().get();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings())) {
            for (int number = 0; number < 60; number++) {
                producer.send(new ProducerRecord<>("orders", number % 3, null, new byte[8]));
                producer.send(new ProducerRecord<>("clicks", number % 2, null, new byte[8]));
            }
        }
        classicGroups();
        KafkaProducer<byte[], byte[]> open = transactions();
        KafkaShareConsumer<byte[], byte[]> sharing = newerGroups();

        Map<String, Object> told = new TreeMap<>();
        List<String> describable = new ArrayList<>();
        for (GroupListing listing : admin.listGroups().all().get()) {
            Map<String, Object> one = new TreeMap<>();
            one.put("type", listing.type().map(Object::toString).orElse(""));
            told.put(listing.groupId(), one);
            if (!one.get("type").equals("Share")) {
                describable.add(listing.groupId());
            }
        }
        for (var entry : admin.describeConsumerGroups(describable).all().get().entrySet()) {
            @SuppressWarnings("unchecked")
            Map<String, Object> one = (Map<String, Object>) told.get(entry.getKey());
            one.putAll(described(entry.getKey(), entry.getValue()));
        }
        System.out.println(new ObjectMapper().writeValueAsString(told));
        System.out.flush();
        Thread.sleep(600_000);
        open.close();
        sharing.close();
    }
}
