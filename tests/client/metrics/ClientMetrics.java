import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Produces and consumes ten records, then prints the metrics of Java's clients, tab-separated: client, group, name, tags,
 * value, description. Arguments: BOOTSTRAP TOPIC GROUP PROTOCOL.
 */
public class ClientMetrics {
    public static void main(String[] args) throws Exception {
        Map<String, Object> common = Map.of("bootstrap.servers", args[0], "client.id", "here");
        Map<String, Object> options = new TreeMap<>(common);
        options.put("group.id", args[2]);
        options.put("group.protocol", args[3]);
        options.put("auto.offset.reset", "earliest");
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(common, new ByteArraySerializer(), new ByteArraySerializer());
             KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
             Admin admin = Admin.create(common)) {
            for (int number = 0; number < 10; number++) {
                producer.send(new ProducerRecord<>(args[1], new byte[100])).get();
            }
            consumer.subscribe(List.of(args[1]));
            int read = 0;
            while (read < 10) {
                read += consumer.poll(Duration.ofMillis(100)).count();
            }
            consumer.commitSync();
            consumer.poll(Duration.ofMillis(100));
            admin.listTopics().names().get();
            print("producer", producer.metrics());
            print("consumer", consumer.metrics());
            print("admin", admin.metrics());
        }
    }

    private static void print(String client, Map<MetricName, ? extends Metric> metrics) {
        metrics.forEach((name, metric) -> System.out.println(String.join("\t", client, name.group(), name.name(),
            String.valueOf(new TreeMap<>(name.tags())), String.valueOf(metric.metricValue()), name.description())));
    }
}
