import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.zip.CRC32;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Record sets made and read by Apache Kafka's own classes.
 *
 * <p>{@code write FILE} makes the golden file that tests decode; {@code read FILE} takes a JSON list of record sets in
 * hexadecimal and prints what Kafka reads in each, checksums verified, as a JSON list.
 */
public class RecordVectors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final long TIME = 1_700_000_000_000L;
    private static final long APPEND_TIME = TIME + 5_000;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("write")) {
            List<String> lines = new ArrayList<>(); // one record set a line, for readable differences
            for (JsonNode set : vectors()) {
                lines.add(JSON.writeValueAsString(set));
            }
            Files.writeString(Path.of(args[1]), "[\n" + String.join(",\n", lines) + "\n]\n");
        } else {
            ArrayNode answers = JSON.createArrayNode();
            for (JsonNode set : JSON.readTree(new File(args[1]))) {
                answers.add(describe(ByteBuffer.wrap(HEX.parseHex(set.asText()))));
            }
            System.out.println(JSON.writeValueAsString(answers));
        }
    }

    // --- reading

    private static ObjectNode describe(ByteBuffer buffer) {
        ObjectNode set = JSON.createObjectNode();
        set.put("hex", hex(buffer));
        ArrayNode batches = set.putArray("batches");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
            batch.ensureValid();
            ObjectNode header = batches.addObject();
            header.put("size_bytes", batch.sizeInBytes());
            header.put("magic", batch.magic());
            header.put("base_offset", batch.baseOffset());
            header.put("last_offset", batch.lastOffset());
            header.put("next_offset", batch.nextOffset());
            header.put("codec", batch.compressionType().id);
            header.put("timestamp_type", batch.timestampType().id);
            header.put("max_timestamp", batch.maxTimestamp());
            header.put("is_transactional", batch.isTransactional());
            header.put("is_control", batch.isControlBatch());
            header.put("producer_id", batch.producerId());
            header.put("producer_epoch", batch.producerEpoch());
            header.put("base_sequence", batch.baseSequence());
            header.put("last_sequence", batch.lastSequence());
            header.put("partition_leader_epoch", batch.partitionLeaderEpoch());
            header.put("record_count", batch.countOrNull());
            if (batch.deleteHorizonMs().isPresent()) {
                header.put("delete_horizon_ms", batch.deleteHorizonMs().getAsLong());
            }
            ArrayNode records = header.putArray("records");
            for (Record record : batch) {
                record.ensureValid();
                ObjectNode one = records.addObject();
                one.put("offset", record.offset());
                one.put("timestamp", record.timestamp());
                one.put("key", record.hasKey() ? content(record.key()) : null);
                one.put("value", record.hasValue() ? content(record.value()) : null);
                ArrayNode headers = one.putArray("headers");
                for (Header h : record.headers()) {
                    headers.addArray().add(h.key()).add(h.value() == null ? null : HEX.formatHex(h.value()));
                }
            }
        }
        return set;
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }

    /** Short strings of bytes in hexadecimal, long ones by size and CRC-32. */
    private static String content(ByteBuffer buffer) {
        if (buffer.remaining() <= 400) {
            return hex(buffer);
        }
        CRC32 crc = new CRC32();
        crc.update(buffer.duplicate());
        return buffer.remaining() + ":" + Long.toHexString(crc.getValue());
    }

    // --- writing

    private static ArrayNode vectors() {
        ArrayNode all = JSON.createArrayNode();
        for (byte magic = 0; magic <= 2; magic++) {
            for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
                if (codec.equals("zstd") && magic < 2) {
                    continue; // Kafka never wrote it in the old formats
                }
                for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
                    if (magic == 0 && type == TimestampType.LOG_APPEND_TIME) {
                        continue;
                    }
                    String name = "v" + magic + " " + codec + " " + type.name;
                    add(all, name, mixed(magic, codec, type));
                }
                add(all, "v" + magic + " " + codec + " compacted", compacted(magic, codec));
                if (!codec.equals("none")) {
                    add(all, "v" + magic + " " + codec + " of several blocks", large(magic, codec));
                }
            }
        }
        for (String codec : new String[] {"none", "zstd"}) {
            add(all, "v2 " + codec + " transactional", transactional(codec));
        }
        add(all, "v2 delete horizon", deleteHorizon());
        ByteBuffer empty = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(empty, (byte) 2, 77, (short) 3, 15, 500, 503, 4, TimestampType.CREATE_TIME,
                TIME, true, false);
        empty.flip();
        add(all, "v2 without records", empty);
        for (ControlRecordType kind : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT}) {
            add(all, "v2 " + kind.name().toLowerCase() + " marker", MemoryRecords.withEndTransactionMarker(
                    700, TIME, 6, 77, (short) 3, new EndTransactionMarker(kind, 9)).buffer());
        }
        ByteBuffer both = ByteBuffer.allocate(1 << 16);
        for (byte magic = 0; magic <= 2; magic++) {
            both.put(rebased(magic, "none", 10 * magic));
            both.put(rebased(magic, "gzip", 10 * magic + 5));
        }
        both.flip();
        add(all, "all formats in one set", both);
        return all;
    }

    private static void add(ArrayNode all, String name, ByteBuffer buffer) {
        ObjectNode set = describe(buffer);
        set.put("name", name);
        all.add(set);
    }

    private static MemoryRecordsBuilder builder(byte magic, String codec, TimestampType type, long baseOffset) {
        return MemoryRecords.builder(ByteBuffer.allocate(1 << 20), magic, Compression.of(codec).build(), type, baseOffset,
                type == TimestampType.LOG_APPEND_TIME ? APPEND_TIME : RecordBatch.NO_TIMESTAMP);
    }

    private static ByteBuffer mixed(byte magic, String codec, TimestampType type) {
        MemoryRecordsBuilder builder = builder(magic, codec, type, 1000);
        long time = magic == 0 ? RecordBatch.NO_TIMESTAMP : TIME;
        long step = magic == 0 ? 0 : 1;
        builder.append(time, null, bytes("value without a key"));
        builder.append(time + 70 * step, bytes("key"), null);
        builder.append(time - 9_000 * step, new byte[0], new byte[0]);
        builder.append(time + 3_000_000 * step, (byte[]) null, (byte[]) null);
        builder.append(time + step, bytes("k\u00e9y"), pattern(300), headers(magic));
        builder.append(time + 2 * step, pattern(64), pattern(63));
        if (magic == 2 && type == TimestampType.CREATE_TIME) {
            builder.append(time + 3 * step, pattern(8191), pattern(8192)); // lengths of 2 and of 3 bytes
        }
        return builder.build().buffer();
    }

    private static Header[] headers(byte magic) {
        if (magic < 2) {
            return Record.EMPTY_HEADERS;
        }
        return new Header[] {
            new RecordHeader("trace", bytes("abc")),
            new RecordHeader("trace", (byte[]) null),
            new RecordHeader("\u00fcber", new byte[0]),
            new RecordHeader("", pattern(200)),
        };
    }

    private static ByteBuffer compacted(byte magic, String codec) {
        MemoryRecordsBuilder builder = builder(magic, codec, TimestampType.CREATE_TIME, 1000);
        long time = magic == 0 ? RecordBatch.NO_TIMESTAMP : TIME;
        builder.appendWithOffset(1003, time, bytes("a"), bytes("3"));
        builder.appendWithOffset(1080, time, bytes("b"), bytes("80"));
        builder.appendWithOffset(10_000, time, bytes("c"), bytes("10000"));
        builder.appendWithOffset(200_000, time, bytes("d"), bytes("200000"));
        if (magic == 2) {
            builder.overrideLastOffset(200_007);
        }
        return builder.build().buffer();
    }

    private static ByteBuffer large(byte magic, String codec) {
        MemoryRecordsBuilder builder = builder(magic, codec, TimestampType.CREATE_TIME, 0);
        for (int i = 0; i < 2; i++) {
            byte[] value = new byte[40_000];
            for (int at = 0; at < value.length; at++) {
                value[at] = (byte) (i + at % 7);
            }
            builder.append(magic == 0 ? RecordBatch.NO_TIMESTAMP : TIME, null, value);
        }
        return builder.build().buffer();
    }

    private static ByteBuffer transactional(String codec) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), (byte) 2,
                Compression.of(codec).build(), TimestampType.CREATE_TIME, 2000, RecordBatch.NO_TIMESTAMP, 77, (short) 3,
                2147483646, true, 8);
        builder.append(TIME, bytes("k1"), bytes("v1"));
        builder.append(TIME, bytes("k2"), bytes("v2"));
        builder.append(TIME, bytes("k3"), bytes("v3"));
        return builder.build().buffer();
    }

    private static ByteBuffer deleteHorizon() {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(4096), (byte) 2,
                Compression.NONE, TimestampType.CREATE_TIME, 3000, RecordBatch.NO_TIMESTAMP, -1, (short) -1, -1, false,
                false, 5, 4096, TIME + 86_400_000);
        builder.append(TIME, bytes("gone"), null);
        builder.append(TIME + 1, bytes("here"), bytes("v"));
        return builder.build().buffer();
    }

    private static ByteBuffer rebased(byte magic, String codec, long baseOffset) {
        MemoryRecordsBuilder builder = builder(magic, codec, TimestampType.CREATE_TIME, baseOffset);
        for (int i = 0; i < 3; i++) {
            builder.append(magic == 0 ? RecordBatch.NO_TIMESTAMP : TIME + i, bytes("k" + i), bytes("v" + magic + i));
        }
        return builder.build().buffer();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] pattern(int size) {
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) {
            bytes[i] = (byte) ('a' + i % 3);
        }
        return bytes;
    }
}
