// One member of a group by the Java client, for what VerifiableConsumer has no option for:
// java -cp 'JARS/*' Member.java BOOTSTRAP GROUP TOPIC STRATEGY NAME SESSION_MS CHOICES LOGIN PROPERTIES
// The file has the options for TLS and SASL, if there are any.
// It prints what VerifiableConsumer prints, commits what it read at once, and leaves on SIGTERM.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileInputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Member {
    static final ObjectMapper JSON = new ObjectMapper();

    static void say(String name, Map<String, Object> fields) {
        Map<String, Object> line = new HashMap<>(fields);
        line.put("timestamp", System.currentTimeMillis());
        line.put("name", name);
        synchronized (JSON) {
            System.out.println(JSON.valueToTree(line));
        }
    }

    static void sayPlaces(String name, Collection<TopicPartition> partitions) {
        List<Map<String, Object>> places = new ArrayList<>();
        partitions.forEach(one -> places.add(Map.of("topic", one.topic(), "partition", one.partition())));
        say(name, Map.of("partitions", places));
    }

    static void sayRead(ConsumerRecords<String, String> records) {
        List<Map<String, Object>> places = new ArrayList<>();
        for (TopicPartition partition : records.partitions()) {
            List<ConsumerRecord<String, String>> run = records.records(partition);
            for (ConsumerRecord<String, String> one : run) {
                say("record_data", Map.of("topic", one.topic(), "partition", one.partition(), "offset", one.offset(),
                    "value", one.value()));
            }
            places.add(Map.of("topic", partition.topic(), "partition", partition.partition(), "count", run.size(),
                "minOffset", run.get(0).offset(), "maxOffset", run.get(run.size() - 1).offset()));
        }
        say("records_consumed", Map.of("partitions", places));
    }

    // What was read and is not committed yet: a cooperative member reads on through a rebalance, which refuses commits.
    static final Map<TopicPartition, OffsetAndMetadata> owed = new HashMap<>();

    static void settle(Consumer<String, String> consumer) {
        if (owed.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(owed);
            owed.clear();
            say("offsets_committed", Map.of("success", true));
        } catch (RebalanceInProgressException | CommitFailedException refused) {
            say("offsets_committed", Map.of("success", false, "error", refused.getMessage()));
        }
    }

    public static void main(String[] args) throws Exception {
        JsonNode choices = JSON.readTree(args[6]);
        boolean newer = choices.get("protocol").asText().equals("consumer");
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", args[0], "group.id", args[1],
            "client.id", args[4], "enable.auto.commit", "false", "auto.offset.reset", choices.get("reset").asText(),
            "metadata.max.age.ms", choices.get("metadata_ms").asText()));
        if (newer) {
            config.putAll(Map.of("group.protocol", "consumer", "group.remote.assignor", args[3]));
        } else {
            Map<String, String> known = Map.of("range", "Range", "roundrobin", "RoundRobin", "cooperative-sticky",
                "CooperativeSticky");
            List<String> assignors = Stream.of(args[3].split(","))
                .map(name -> "org.apache.kafka.clients.consumer." + known.get(name) + "Assignor").toList();
            config.putAll(Map.of("session.timeout.ms", args[5], "heartbeat.interval.ms", "400",
                "partition.assignment.strategy", assignors));
        }
        Properties security = new Properties();
        try (FileInputStream file = new FileInputStream(args[8])) {
            security.load(file);
        }
        security.forEach((name, value) -> config.put((String) name, value));
        if (!choices.get("instance").asText().isEmpty()) {
            config.put("group.instance.id", choices.get("instance").asText());
        }
        Consumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        Thread polling = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                polling.join();
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));

        long paused = choices.get("pause_ms").asLong();
        long[] resumeAt = {0};
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                sayPlaces("partitions_assigned", partitions);
                if (paused > 0) {
                    consumer.pause(partitions.stream().filter(one -> one.partition() == 0).toList());
                    resumeAt[0] = System.currentTimeMillis() + paused;
                }
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                settle(consumer);
                owed.keySet().removeAll(partitions);
                sayPlaces("partitions_revoked", partitions);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                owed.keySet().removeAll(partitions);
                sayPlaces("partitions_lost", partitions);
            }
        };
        if (choices.get("pattern").asBoolean() && newer) {
            consumer.subscribe(new SubscriptionPattern(args[2]), listener);
        } else if (choices.get("pattern").asBoolean()) {
            consumer.subscribe(Pattern.compile(args[2]), listener);
        } else {
            consumer.subscribe(List.of(args[2]), listener);
        }
        try {
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (resumeAt[0] > 0 && System.currentTimeMillis() >= resumeAt[0]) {
                    consumer.resume(consumer.paused());
                    resumeAt[0] = 0;
                }
                if (!records.isEmpty()) {
                    sayRead(records);
                }
                for (ConsumerRecord<String, String> one : records) {
                    owed.put(new TopicPartition(one.topic(), one.partition()),
                        new OffsetAndMetadata(one.offset() + 1, choices.get("note").asText()));
                }
                settle(consumer);
            }
        } catch (WakeupException leaving) {
            consumer.close();
        } catch (NoOffsetForPartitionException none) {
            say("no_offset", Map.of());
            consumer.close();
        }
    }
}
