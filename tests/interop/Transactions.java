// Copies a topic to another in transactions, some of which it aborts, with Apache Kafka's own clients:
// java -cp 'JARS/*' Transactions.java BOOTSTRAP FROM TO RECORDS [NAME=VALUE of the producer]...
// Prints the values that read_committed consumers find in TO, one per line, then "aborted N".

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Transactions {
    static Properties properties(String bootstrap) {
        Properties given = new Properties();
        given.put("bootstrap.servers", bootstrap);
        given.put("key.serializer", StringSerializer.class.getName());
        given.put("value.serializer", StringSerializer.class.getName());
        given.put("key.deserializer", StringDeserializer.class.getName());
        given.put("value.deserializer", StringDeserializer.class.getName());
        return given;
    }

    static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Properties given = properties(bootstrap);
        given.put("group.id", group);
        given.put("isolation.level", "read_committed");
        given.put("auto.offset.reset", "earliest");
        given.put("enable.auto.commit", "false");
        given.put("max.poll.records", "7");
        return new KafkaConsumer<>(given);
    }

    static void rewind(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata found = committed.get(partition);
            if (found == null) consumer.seekToBeginning(List.of(partition));
            else consumer.seek(partition, found.offset());
        }
    }

    static int copy(String bootstrap, String from, String to, int records, Properties more) {
        Properties given = properties(bootstrap);
        given.put("transactional.id", to);
        given.putAll(more);
        int copied = 0, aborted = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(given);
                KafkaConsumer<String, String> consumer = consumer(bootstrap, to + "-group")) {
            producer.initTransactions();
            consumer.subscribe(List.of(from));
            for (int turn = 0; copied < records; turn++) {
                ConsumerRecords<String, String> found = consumer.poll(Duration.ofSeconds(1));
                if (found.isEmpty()) continue;
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : found) {
                    producer.send(new ProducerRecord<>(to, record.partition(), null, record.value()));
                    offsets.put(
                            new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (turn % 3 == 1) {
                    producer.flush();
                    producer.abortTransaction();
                    rewind(consumer);
                    aborted++;
                } else {
                    producer.commitTransaction();
                    copied += found.count();
                }
            }
        }
        return aborted;
    }

    public static void main(String[] args) {
        String bootstrap = args[0], from = args[1], to = args[2];
        int records = Integer.parseInt(args[3]);
        Properties more = new Properties();
        for (int at = 4; at < args.length; at++) {
            String[] parts = args[at].split("=", 2);
            more.put(parts[0], parts[1]);
        }
        int aborted = copy(bootstrap, from, to, records, more);
        List<String> seen = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap, to + "-check")) {
            consumer.subscribe(List.of(to));
            while (seen.size() < records) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) seen.add(record.value());
            }
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(300))) seen.add(record.value());
        }
        seen.forEach(System.out::println);
        System.out.println("aborted " + aborted);
    }
}
