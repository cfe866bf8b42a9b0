// Golden bytes of what members of a group and its coordinator say to each other, written by Kafka's own classes.
//
// java -cp "LIBS/*" GroupVectors.java
//
// Prints one line of JSON for each message: {"name": ..., "message": ..., "version": ..., "hex": ...}. The values are
// those of a group of two members, so that a reader finds each of them again in the bytes.

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FindCoordinatorRequestData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocolCollection;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupRequestData.MemberIdentity;
import org.apache.kafka.common.message.LeaveGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupResponseData.MemberResponse;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupRequestData.SyncGroupRequestAssignment;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

public class GroupVectors {
    public static void main(String[] args) {
        findCoordinator();
        joinGroup();
        syncGroup();
        leaveGroup();
        blobs();
    }

    static void findCoordinator() {
        FindCoordinatorRequestData one = new FindCoordinatorRequestData().setKey("g").setKeyType((byte) 0);
        print("find", 3, one);
        print("find transaction", 3, new FindCoordinatorRequestData().setKey("tx").setKeyType((byte) 1));
        print("find many", 4, new FindCoordinatorRequestData().setKeyType((byte) 0).setCoordinatorKeys(List.of("g", "h")));
        print("found", 3, new FindCoordinatorResponseData().setThrottleTimeMs(0).setErrorCode((short) 0)
            .setErrorMessage(null).setNodeId(2).setHost("b2").setPort(9092));
        print("not found", 3, new FindCoordinatorResponseData().setThrottleTimeMs(7).setErrorCode((short) 15)
            .setErrorMessage("no").setNodeId(-1).setHost("").setPort(-1));
        print("found many", 4, new FindCoordinatorResponseData().setThrottleTimeMs(0).setCoordinators(List.of(
            new FindCoordinatorResponseData.Coordinator().setKey("g").setNodeId(2).setHost("b2").setPort(9092)
                .setErrorCode((short) 0).setErrorMessage(null),
            new FindCoordinatorResponseData.Coordinator().setKey("h").setNodeId(-1).setHost("").setPort(-1)
                .setErrorCode((short) 15).setErrorMessage("no"))));
    }

    static void joinGroup() {
        print("first join", 7, join("", null));
        print("first join", 5, join("", null));
        print("static join", 7, join("i-7-u", "i-7"));
        print("join with a reason", 8, join("m1", null).setReason("bye"));
        print("joined, leader", 7, joined("m1").setMembers(List.of(
            new JoinGroupResponseMember().setMemberId("m1").setGroupInstanceId(null).setMetadata(new byte[] {1}),
            new JoinGroupResponseMember().setMemberId("m2").setGroupInstanceId("i").setMetadata(new byte[] {2, 3}))));
        print("joined, follower", 7, joined("m2"));
        print("joined, follower", 6, joined("m2").setProtocolType(null));
        print("joined, static leader that came back", 9, joined("m1").setSkipAssignment(true));
        print("refused", 7, new JoinGroupResponseData().setErrorCode((short) 79).setGenerationId(-1)
            .setProtocolType(null).setProtocolName(null).setLeader("").setMemberId("m3"));
        print("refused", 6, new JoinGroupResponseData().setErrorCode((short) 79).setGenerationId(-1)
            .setProtocolName("").setLeader("").setMemberId("m3"));
    }

    static JoinGroupRequestData join(String memberId, String instanceId) {
        JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestProtocolCollection();
        protocols.add(new JoinGroupRequestProtocol().setName("range").setMetadata(new byte[] {1, 2, 3}));
        protocols.add(new JoinGroupRequestProtocol().setName("rr").setMetadata(new byte[] {4}));
        return new JoinGroupRequestData().setGroupId("g").setSessionTimeoutMs(45000).setRebalanceTimeoutMs(300000)
            .setMemberId(memberId).setGroupInstanceId(instanceId).setProtocolType("consumer").setProtocols(protocols);
    }

    static JoinGroupResponseData joined(String memberId) {
        return new JoinGroupResponseData().setThrottleTimeMs(5).setErrorCode((short) 0).setGenerationId(3)
            .setProtocolType("consumer").setProtocolName("range").setLeader("m1").setMemberId(memberId);
    }

    static void syncGroup() {
        print("sync, leader", 5, sync("m1").setAssignments(List.of(
            new SyncGroupRequestAssignment().setMemberId("m1").setAssignment(new byte[] {1}),
            new SyncGroupRequestAssignment().setMemberId("m2").setAssignment(new byte[] {2, 3}))));
        print("sync, follower", 5, sync("m2").setGroupInstanceId("i"));
        print("sync, follower", 4, sync("m2").setGroupInstanceId("i").setProtocolType(null).setProtocolName(null));
        print("synced", 5, new SyncGroupResponseData().setThrottleTimeMs(5).setErrorCode((short) 0)
            .setProtocolType("consumer").setProtocolName("range").setAssignment(new byte[] {2, 3}));
        print("sync refused", 5, new SyncGroupResponseData().setErrorCode((short) 27));
    }

    static SyncGroupRequestData sync(String memberId) {
        return new SyncGroupRequestData().setGroupId("g").setGenerationId(3).setMemberId(memberId)
            .setProtocolType("consumer").setProtocolName("range");
    }

    static void leaveGroup() {
        List<MemberIdentity> two = List.of(
            new MemberIdentity().setMemberId("m1").setGroupInstanceId(null),
            new MemberIdentity().setMemberId("").setGroupInstanceId("i"));
        print("leave", 2, new LeaveGroupRequestData().setGroupId("g").setMemberId("m1"));
        print("leave, two", 3, new LeaveGroupRequestData().setGroupId("g").setMembers(two));
        print("leave, two", 4, new LeaveGroupRequestData().setGroupId("g").setMembers(two));
        print("leave with a reason", 5, new LeaveGroupRequestData().setGroupId("g").setMembers(List.of(
            new MemberIdentity().setMemberId("m1").setGroupInstanceId(null).setReason("bye"))));
        print("left, two", 4, new LeaveGroupResponseData().setThrottleTimeMs(5).setErrorCode((short) 0).setMembers(List.of(
            new MemberResponse().setMemberId("m1").setGroupInstanceId(null).setErrorCode((short) 0),
            new MemberResponse().setMemberId("").setGroupInstanceId("i").setErrorCode((short) 25))));
    }

    // What the bytes fields above carry in a consumer group.
    static void blobs() {
        List<TopicPartition> owned = List.of(new TopicPartition("t", 0), new TopicPartition("t", 2));
        Subscription subscription = new Subscription(List.of("t", "u"), null, owned, 3, Optional.of("r"));
        for (short version = 0; version <= 3; version++) {
            print("Subscription", "subscription", version, ConsumerProtocol.serializeSubscription(subscription, version));
        }
        Assignment assignment = new Assignment(owned, ByteBuffer.wrap(new byte[] {9}));
        for (short version = 0; version <= 3; version++) {
            print("Assignment", "assignment", version, ConsumerProtocol.serializeAssignment(assignment, version));
        }
    }

    static void print(String name, int version, Message message) {
        String type = message.getClass().getSimpleName().replaceAll("Data$", "");
        print(type, name, version, MessageUtil.toByteBufferAccessor(message, (short) version).buffer());
    }

    static void print(String type, String name, int version, ByteBuffer bytes) {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        System.out.printf("{\"name\": \"%s\", \"message\": \"%s\", \"version\": %d, \"hex\": \"%s\"}%n",
            name, type, version, HexFormat.of().formatHex(copy));
    }
}
