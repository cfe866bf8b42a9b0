import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactions of 100 records of 100 bytes, one after the other: SERVERS TOPIC COUNT. Prints the median in ms. */
public class TransactionLoop {
    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("transactional.id", "java-loop");
        int count = Integer.parseInt(args[2]);
        double[] times = new double[count];
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (int turn = -count / 4; turn < count; turn++) {
                long begin = System.nanoTime();
                producer.beginTransaction();
                for (int number = 0; number < 100; number++)
                    producer.send(new ProducerRecord<>(args[1], null, new byte[100]));
                producer.commitTransaction();
                if (turn >= 0) times[turn] = (System.nanoTime() - begin) / 1e6;
            }
        }
        Arrays.sort(times);
        System.out.println(times[count / 2]);
    }
}
