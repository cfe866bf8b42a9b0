import java.io.File;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.TransactionIndex;

/**
 * What Kafka's own classes write of transactions: the records of __transaction_state, step by step through the states
 * of an id, a snapshot of producers, and a transaction index.
 *
 * Prints lines of tab-separated fields: "follows FROM TO", "state VERSION SCENARIO STEP BYTES", "key BYTES",
 * "snapshot BYTES", "index BYTES".
 */
public class TransactionLogVectors {
    private static final long TIME = 1538843128354L;
    private static final Set<TopicPartition> ONE = Set.of(new TopicPartition("topic-sink", 0));

    private final TransactionVersion version;
    private final String scenario;
    private final TransactionMetadata metadata;
    private int step = 0;

    private TransactionLogVectors(TransactionVersion version, String scenario, int epoch) {
        this.version = version;
        this.scenario = scenario;
        metadata = new TransactionMetadata("transactionalId", 1000L, -1L, -1L, (short) epoch, (short) -1, 60000,
                TransactionState.EMPTY, new java.util.HashSet<>(), -1L, TIME, TransactionVersion.TV_0);
    }

    public static void main(String[] args) throws Exception {
        for (TransactionState from : TransactionState.values())
            for (TransactionState to : TransactionState.values())
                if (to.validPreviousStates().contains(from)) print("follows", from, to);
        print("key", hex(TransactionLog.keyToBytes("transactionalId")));
        for (TransactionVersion version : TransactionVersion.values()) {
            for (boolean commit : new boolean[] {true, false}) {
                TransactionLogVectors one = new TransactionLogVectors(version, commit ? "commit" : "abort", -1);
                one.init(Optional.empty());
                one.add();
                one.end(commit, -1L, false);
                one.complete();
                one.init(Optional.of(one.metadata.producerEpoch()));
            }
            TransactionLogVectors fenced = new TransactionLogVectors(version, "fence", 7);
            fenced.add();
            fenced.fence();
            fenced.complete();
            TransactionLogVectors last = new TransactionLogVectors(version, "exhausted", 32766);
            last.add();
            last.end(true, version.supportsEpochBump() ? 2000L : -1L, false);
            last.complete();
            if (!version.supportsEpochBump()) last.rotate();
            if (version.supportsEpochBump()) {
                TransactionLogVectors empty = new TransactionLogVectors(version, "empty", 3);
                empty.end(false, -1L, true);
                empty.complete();
            }
        }
        snapshot();
        index();
    }

    private void write(TxnTransitMetadata transit) {
        print("state", version.featureLevel(), scenario, step++, hex(TransactionLog.valueToBytes(transit, version)));
        metadata.completeTransitionTo(transit);
    }

    private void init(Optional<Short> expected) {
        write(metadata.prepareIncrementProducerEpoch(60000, expected, TIME));
    }

    private void add() {
        write(metadata.prepareAddPartitions(ONE, TIME + 1, version));
    }

    private void end(boolean commit, long next, boolean empty) {
        TransactionState state = commit ? TransactionState.PREPARE_COMMIT : TransactionState.PREPARE_ABORT;
        write(metadata.prepareAbortOrCommit(state, version, next, TIME + 2, empty));
    }

    private void fence() {
        TxnTransitMetadata fence = metadata.prepareFenceProducerEpoch();
        metadata.pendingState(Optional.empty());
        metadata.setProducerEpoch(fence.producerEpoch());
        metadata.setLastProducerEpoch((short) -1);
        end(false, -1L, false);
    }

    private void complete() {
        write(metadata.prepareComplete(TIME + 3));
    }

    private void rotate() {
        write(metadata.prepareProducerIdRotation(2000L, 60000, TIME + 4, true));
    }

    private static void snapshot() throws Exception {
        Map<Long, ProducerStateEntry> entries = new LinkedHashMap<>();
        ProducerStateEntry idle = new ProducerStateEntry(1000L, (short) 3, 5, TIME, OptionalLong.empty());
        add(idle, (short) 3, 41, 120L, 2, TIME);
        entries.put(1000L, idle);
        ProducerStateEntry open = new ProducerStateEntry(1001L, (short) 0, -1, TIME + 1, OptionalLong.of(121L));
        add(open, (short) 0, 0, 121L, 0, TIME + 1);
        entries.put(1001L, open);
        entries.put(1002L, new ProducerStateEntry(1002L, (short) 9, 2, TIME + 2, OptionalLong.empty()));
        File file = File.createTempFile("snapshot", null);
        ProducerStateManager.writeSnapshot(file, entries, false);
        print("snapshot", hex(Files.readAllBytes(file.toPath())));
        file.delete();
    }

    private static void add(ProducerStateEntry entry, short epoch, int seq, long offset, int delta, long time) throws Exception {
        Method add = ProducerStateEntry.class.getDeclaredMethod("addBatch", short.class, int.class, long.class, int.class, long.class);
        add.setAccessible(true);
        add.invoke(entry, epoch, seq, offset, delta, time);
    }

    private static void index() throws Exception {
        File file = File.createTempFile("index", null);
        TransactionIndex index = new TransactionIndex(0L, file);
        index.append(new AbortedTxn(1000L, 0L, 10L, 11L));
        index.append(new AbortedTxn(1001L, 5L, 30L, 12L));
        index.close();
        print("index", hex(Files.readAllBytes(file.toPath())));
        file.delete();
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    private static void print(Object... fields) {
        StringBuilder line = new StringBuilder();
        for (Object field : fields) line.append(line.isEmpty() ? "" : "\t").append(field);
        System.out.println(line);
    }
}
