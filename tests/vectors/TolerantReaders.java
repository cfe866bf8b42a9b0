import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.File;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * Reads odd record sets as Java's consumer does: {@code FILE} has a JSON list of them in hexadecimal; a JSON list of what is
 * read of each is printed. The steps are those of {@code CompletedFetch}: checksums of batches of format 2 first, records
 * below the next offset are left out, and at the end of a batch the next offset is that of the batch.
 */
public class TolerantReaders {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        ArrayNode answers = json.createArrayNode();
        for (JsonNode set : json.readTree(new File(args[0]))) {
            ObjectNode answer = answers.addObject();
            ArrayNode records = answer.putArray("records");
            String error = null;
            long next = 0;
            try (BufferSupplier buffers = BufferSupplier.create()) {
                for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(set.asText()))).batches()) {
                    next = read(batch, buffers, next, records);
                }
            } catch (Throwable problem) {
                Throwable cause = problem;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                error = cause.getClass().getSimpleName() + ": " + cause.getMessage();
            }
            answer.put("next_offset", next);
            answer.put("error", error);
        }
        System.out.println(json.writeValueAsString(answers));
    }

    private static long read(MutableRecordBatch batch, BufferSupplier buffers, long next, ArrayNode records) {
        if (batch.magic() >= RecordBatch.MAGIC_VALUE_V2) {
            batch.ensureValid();
        }
        try (CloseableIterator<Record> found = batch.streamingIterator(buffers)) {
            while (found.hasNext()) {
                Record record = found.next();
                if (record.offset() < next) {
                    continue;
                }
                record.ensureValid();
                next = record.offset() + 1;
                if (batch.isControlBatch()) {
                    continue;
                }
                ArrayNode one = records.addArray();
                one.add(record.offset());
                one.add(record.timestamp());
                one.add(record.hasKey() ? hex(record.key()) : null);
                one.add(record.hasValue() ? hex(record.value()) : null);
                ArrayNode headers = one.addArray();
                for (Header header : record.headers()) {
                    headers.addArray().add(header.key()).add(header.value() == null ? null : HEX.formatHex(header.value()));
                }
            }
        }
        return batch.nextOffset();
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
