// Reads "CODEC HEX" lines, a record batch of ours each, from standard input. Prints its records as Apache Kafka's client
// reads them, one a line, then the same records as it packs them with that codec: "batch HEX"; or "refused" and why.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

public class RecordBatches {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            try {
                System.out.println(answer(words[0], HexFormat.of().parseHex(words[1])));
            } catch (RuntimeException refused) {
                System.out.println("refused " + refused.toString().replace('\n', ' '));
            }
        }
    }

    private static String answer(String codec, byte[] bytes) {
        StringBuilder out = new StringBuilder();
        List<SimpleRecord> records = new ArrayList<>();
        long first = -1;
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            first = batch.baseOffset();
            for (Record record : batch) {
                out.append(described(record)).append('\n');
                records.add(new SimpleRecord(record));
            }
        }
        SimpleRecord[] again = records.toArray(new SimpleRecord[0]);
        ByteBuffer packed = MemoryRecords.withRecords(first, Compression.of(codec).build(), again).buffer();
        byte[] written = new byte[packed.remaining()];
        packed.get(written);
        return out + "batch " + HexFormat.of().formatHex(written);
    }

    private static String described(Record record) {
        StringBuilder out = new StringBuilder();
        out.append(record.offset()).append(' ').append(record.timestamp());
        out.append(' ').append(hex(record.key())).append(' ').append(hex(record.value()));
        for (Header header : record.headers())
            out.append(' ').append(header.key()).append('=').append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
        return out.toString();
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "x" + HexFormat.of().formatHex(bytes);
    }
}
