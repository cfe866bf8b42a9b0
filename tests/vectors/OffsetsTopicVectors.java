// Prints tests/vectors/offsets_topic.json: records of __consumer_offsets as Apache Kafka's group coordinator writes them.
// Run: java -cp "<Kafka's libs>/*" tests/vectors/OffsetsTopicVectors.java > tests/vectors/offsets_topic.json

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.HexFormat;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocolCollection;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.OffsetAndMetadata;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupMember;
import org.apache.kafka.coordinator.group.classic.ClassicGroupState;

public class OffsetsTopicVectors {
    static final long TIME = 1700000000000L;
    static final Map<String, CoordinatorRecord> RECORDS = new LinkedHashMap<>();

    static void offset(String name, int epoch, String metadata, OptionalLong expires, Uuid topicId) {
        OptionalInt leaderEpoch = epoch < 0 ? OptionalInt.empty() : OptionalInt.of(epoch);
        RECORDS.put(name, GroupCoordinatorRecordHelpers.newOffsetCommitRecord("testgroup", "orders", 3,
            new OffsetAndMetadata(42, leaderEpoch, metadata, TIME, expires, topicId)));
    }

    static void group(String name, Optional<String> instanceId) {
        ClassicGroup group = new ClassicGroup(new LogContext(), "testgroup", ClassicGroupState.STABLE, Time.SYSTEM, 1,
            Optional.of("consumer"), Optional.of("range"), Optional.of("c-1"), Optional.of(TIME));
        JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestProtocolCollection();
        protocols.add(new JoinGroupRequestProtocol().setName("range").setMetadata(new byte[] {1, 2}));
        group.add(new ClassicGroupMember("c-1", instanceId, "c", "/h", 300000, 10000, "consumer", protocols));
        RECORDS.put(name, GroupCoordinatorRecordHelpers.newGroupMetadataRecord(group, Map.of("c-1", new byte[] {3})));
    }

    public static void main(String[] args) {
        offset("offset", 7, "m", OptionalLong.empty(), Uuid.ZERO_UUID);
        offset("offset without epoch", -1, "", OptionalLong.empty(), Uuid.ZERO_UUID);
        offset("offset with expiry", 7, "m", OptionalLong.of(TIME + 86400000L), Uuid.ZERO_UUID);
        offset("offset with topic id", 7, "m", OptionalLong.empty(),
            new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L));
        RECORDS.put("offset tombstone",
            GroupCoordinatorRecordHelpers.newOffsetCommitTombstoneRecord("testgroup", "orders", 3));
        RECORDS.put("group tombstone", GroupCoordinatorRecordHelpers.newGroupMetadataTombstoneRecord("testgroup"));
        ClassicGroup empty = new ClassicGroup(new LogContext(), "testgroup", ClassicGroupState.EMPTY, Time.SYSTEM, 2,
            Optional.of("consumer"), Optional.empty(), Optional.empty(), Optional.of(TIME));
        RECORDS.put("empty group", GroupCoordinatorRecordHelpers.newGroupMetadataRecord(empty, Map.of()));
        group("group", Optional.empty());
        group("group with a static member", Optional.of("i1"));

        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        StringBuilder json = new StringBuilder("{\n  \"kafka\": \"" + AppInfoParser.getVersion() + "\",\n  \"records\": {");
        String separator = "\n";
        for (Map.Entry<String, CoordinatorRecord> entry : RECORDS.entrySet()) {
            String key = HexFormat.of().formatHex(serde.serializeKey(entry.getValue()));
            byte[] value = serde.serializeValue(entry.getValue());
            String text = value == null ? "null" : '"' + HexFormat.of().formatHex(value) + '"';
            json.append(separator).append("    \"").append(entry.getKey()).append("\": {\"key\": \"").append(key)
                .append("\", \"value\": ").append(text).append('}');
            separator = ",\n";
        }
        System.out.println(json.append("\n  }\n}"));
    }
}
