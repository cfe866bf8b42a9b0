import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.CommitMode;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Confluent's Parallel Consumer, ordered by key. Arguments: servers, topic, group, concurrency, milliseconds of work,
 * records to warm up, and records to measure. Prints the seconds and the seconds of the processor that the measured
 * records took, as JSON.
 */
public class ParallelConsumerRate {
    private static final AtomicLong COUNT = new AtomicLong();
    private static final CountDownLatch DONE = new CountDownLatch(1);
    private static volatile long began;
    private static volatile long used;
    private static volatile long ended;
    private static volatile long usedAtEnd;

    public static void main(String[] args) throws Exception {
        long work = Long.parseLong(args[4]);
        long warm = Long.parseLong(args[5]);
        long wanted = warm + Long.parseLong(args[6]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        var options = ParallelConsumerOptions.<byte[], byte[]>builder()
                .consumer(new KafkaConsumer<>(settings))
                .ordering(ProcessingOrder.KEY)
                .commitMode(CommitMode.PERIODIC_CONSUMER_ASYNCHRONOUS)
                .maxConcurrency(Integer.parseInt(args[3]))
                .ignoreReflectiveAccessExceptionsForAutoCommitDisabledCheck(true)
                .build();
        var processor = ParallelStreamProcessor.createEosStreamProcessor(options);
        processor.subscribe(List.of(args[1]));
        processor.poll(context -> {
            try {
                Thread.sleep(work);
            } catch (InterruptedException error) {
                return; // it was measured, and ends
            }
            long count = COUNT.incrementAndGet();
            if (count == warm) {
                used = system.getProcessCpuTime();
                began = System.nanoTime();
            } else if (count == wanted) {
                ended = System.nanoTime();
                usedAtEnd = system.getProcessCpuTime();
                DONE.countDown();
            }
        });
        DONE.await();
        System.out.printf("{\"seconds\": %f, \"cpu\": %f, \"records\": %d}%n", (ended - began) / 1e9,
                (usedAtEnd - used) / 1e9, wanted - warm);
        System.out.flush();
        processor.closeDontDrainFirst();
        System.exit(0);
    }
}
