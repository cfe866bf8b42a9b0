import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.internals.TransactionManager;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;

/**
 * What Java's own TransactionManager does: its legal moves, and its reaction to each error of each request.
 *
 * Prints lines of tab-separated fields: "move FROM TO" and
 * "error VERSION REQUEST ERROR STATE REPEATED LOOKUP BUMP PAUSE".
 */
public class TransactionVectors {
    private static final String INTERNALS = "org.apache.kafka.clients.producer.internals.TransactionManager";
    private static final Node NODE = new Node(1, "localhost", 9092);
    private static final TopicPartition PARTITION = new TopicPartition("t", 0);

    public static void main(String[] args) throws Exception {
        Object[] states = Class.forName(INTERNALS + "$State").getEnumConstants();
        Method isValid = states[0].getClass().getDeclaredMethod("isTransitionValid", states[0].getClass(), states[0].getClass());
        isValid.setAccessible(true);
        for (Object from : states)
            for (Object to : states)
                if ((Boolean) isValid.invoke(from, from, to)) print("move", from, to);
        for (int version : new int[] {1, 2})
            for (String request : List.of("INIT", "BUMP", "FIND", "FIND_GROUP", "ADD_PARTITIONS", "ADD_OFFSETS", "COMMIT_OFFSETS",
                    "COMMIT", "ABORT", "PRODUCE"))
                for (Errors error : Errors.values())
                    if (error != Errors.NONE) one(version, request, error);
    }

    private static void one(int version, String request, Errors error) throws Exception {
        TransactionManager manager = new TransactionManager(new LogContext(), "id", 60000, 100L, new ApiVersions(), false);
        set(manager, "isTransactionV2Enabled", version == 2);
        set(manager, "coordinatorSupportsBumpingEpoch", true);
        set(manager, "latestFinalizedFeaturesEpoch", 7L);
        if (!request.equals("FIND")) set(manager, "transactionCoordinator", NODE);
        if (!request.equals("FIND_GROUP")) set(manager, "consumerGroupCoordinator", NODE);
        Object handler;
        if (request.equals("INIT") || request.equals("FIND")) {
            manager.initializeTransactions(false);
            handler = take(manager, request.equals("INIT") ? "InitProducerIdHandler" : "FindCoordinatorHandler");
        } else {
            set(manager, "producerIdAndEpoch", new ProducerIdAndEpoch(1L, (short) 3));
            set(manager, "currentState", state("READY"));
            manager.beginTransaction();
            set(manager, "transactionStarted", true);
            handler = open(manager, request, version);
        }
        if (request.equals("PRODUCE")) {
            manager.maybeTransitionToErrorState(error.exception());
        } else {
            call(handler.getClass(), handler, "onComplete", new Class<?>[] {ClientResponse.class}, answer(request, error));
        }
        Collection<?> pending = (Collection<?>) get(manager, "pendingRequests");
        boolean lookup = pending.stream().anyMatch(one -> one.getClass().getSimpleName().equals("FindCoordinatorHandler") && one != handler);
        Object pause = handler == null ? "-" : call(handler.getClass(), handler, "retryBackoffMs", new Class<?>[0]);
        boolean repeated = handler != null && pending.contains(handler);
        print("error", version, request, error.name(), get(manager, "currentState"), repeated ? "repeated" : "-",
                lookup ? "lookup" : "-", (Boolean) get(manager, "clientSideEpochBumpRequired") ? "bump" : "-", repeated ? pause : "-");
    }

    private static Object open(TransactionManager manager, String request, int version) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(PARTITION, new OffsetAndMetadata(5));
        switch (request) {
            case "BUMP":
                set(manager, "clientSideEpochBumpRequired", true);
                set(manager, "isTransactionV2Enabled", false);
                manager.beginAbort();
                set(manager, "isTransactionV2Enabled", version == 2);
                return take(manager, "InitProducerIdHandler");
            case "ADD_PARTITIONS":
                set(manager, "isTransactionV2Enabled", false);
                manager.maybeAddPartition(PARTITION);
                Method add = TransactionManager.class.getDeclaredMethod("addPartitionsToTransactionHandler");
                add.setAccessible(true);
                Object handler = add.invoke(manager);
                set(manager, "isTransactionV2Enabled", version == 2);
                return handler;
            case "ADD_OFFSETS":
                set(manager, "isTransactionV2Enabled", false);
                call(TransactionManager.class, manager, "sendOffsetsToTransaction",
                        new Class<?>[] {Map.class, ConsumerGroupMetadata.class}, offsets, new ConsumerGroupMetadata("g"));
                set(manager, "isTransactionV2Enabled", version == 2);
                return take(manager, "AddOffsetsToTxnHandler");
            case "COMMIT_OFFSETS":
            case "FIND_GROUP":
                set(manager, "isTransactionV2Enabled", true);
                call(TransactionManager.class, manager, "sendOffsetsToTransaction",
                        new Class<?>[] {Map.class, ConsumerGroupMetadata.class}, offsets, new ConsumerGroupMetadata("g"));
                set(manager, "isTransactionV2Enabled", version == 2);
                Object commit = take(manager, "TxnOffsetCommitHandler");
                if (request.equals("COMMIT_OFFSETS")) return commit;
                Method lookup = TransactionManager.class.getDeclaredMethod("lookupCoordinator", FindCoordinatorRequest.CoordinatorType.class, String.class);
                lookup.setAccessible(true);
                lookup.invoke(manager, FindCoordinatorRequest.CoordinatorType.GROUP, "g");
                return take(manager, "FindCoordinatorHandler");
            case "COMMIT":
                manager.beginCommit();
                return take(manager, "EndTxnHandler");
            case "ABORT":
                manager.beginAbort();
                return take(manager, "EndTxnHandler");
            default:
                return null;
        }
    }

    private static ClientResponse answer(String request, Errors error) {
        AbstractResponse response;
        ApiKeys key;
        switch (request) {
            case "INIT":
            case "BUMP":
                key = ApiKeys.INIT_PRODUCER_ID;
                response = new InitProducerIdResponse(new InitProducerIdResponseData().setErrorCode(error.code()));
                break;
            case "FIND":
            case "FIND_GROUP":
                key = ApiKeys.FIND_COORDINATOR;
                response = new FindCoordinatorResponse(new FindCoordinatorResponseData().setCoordinators(
                        List.of(new FindCoordinatorResponseData.Coordinator().setErrorCode(error.code()).setKey("g"))));
                break;
            case "ADD_PARTITIONS":
                key = ApiKeys.ADD_PARTITIONS_TO_TXN;
                AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult topic = new AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult()
                        .setName("t");
                topic.resultsByPartition().add(new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResult()
                        .setPartitionIndex(0).setPartitionErrorCode(error.code()));
                AddPartitionsToTxnResponseData data = new AddPartitionsToTxnResponseData();
                data.resultsByTopicV3AndBelow().add(topic);
                response = new AddPartitionsToTxnResponse(data);
                break;
            case "ADD_OFFSETS":
                key = ApiKeys.ADD_OFFSETS_TO_TXN;
                response = new AddOffsetsToTxnResponse(new AddOffsetsToTxnResponseData().setErrorCode(error.code()));
                break;
            case "COMMIT_OFFSETS":
                key = ApiKeys.TXN_OFFSET_COMMIT;
                response = new TxnOffsetCommitResponse(0, Map.of(PARTITION, error));
                break;
            default:
                key = ApiKeys.END_TXN;
                response = new EndTxnResponse(new EndTxnResponseData().setErrorCode(error.code()));
        }
        RequestHeader header = new RequestHeader(key, (short) 0, "", -1);
        return new ClientResponse(header, null, null, 0, 0, false, null, null, response);
    }

    @SuppressWarnings("unchecked")
    private static Object take(TransactionManager manager, String name) throws Exception {
        Queue<Object> queue = (Queue<Object>) get(manager, "pendingRequests");
        List<Object> found = new ArrayList<>(queue).stream().filter(one -> one.getClass().getSimpleName().equals(name)).collect(Collectors.toList());
        if (name.equals("FindCoordinatorHandler") && found.isEmpty()) {
            Method lookup = TransactionManager.class.getDeclaredMethod("lookupCoordinator", FindCoordinatorRequest.CoordinatorType.class, String.class);
            lookup.setAccessible(true);
            lookup.invoke(manager, FindCoordinatorRequest.CoordinatorType.TRANSACTION, "id");
            return take(manager, name);
        }
        queue.remove(found.get(0));
        return found.get(0);
    }

    private static Object state(String name) throws Exception {
        for (Object one : Class.forName(INTERNALS + "$State").getEnumConstants())
            if (one.toString().equals(name)) return one;
        throw new IllegalStateException(name);
    }

    private static void set(TransactionManager manager, String name, Object value) throws Exception {
        Field field = TransactionManager.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(manager, value);
    }

    private static Object get(TransactionManager manager, String name) throws Exception {
        Field field = TransactionManager.class.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(manager);
    }

    private static Object call(Class<?> kind, Object target, String name, Class<?>[] types, Object... values) throws Exception {
        for (Class<?> one = kind; one != null; one = one.getSuperclass()) {
            try {
                Method method = one.getDeclaredMethod(name, types);
                method.setAccessible(true);
                return method.invoke(target, values);
            } catch (NoSuchMethodException missing) {
                continue;
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static void print(Object... fields) {
        StringBuilder line = new StringBuilder();
        for (Object field : fields) line.append(line.length() > 0 ? "\t" : "").append(field);
        System.out.println(line);
    }
}
