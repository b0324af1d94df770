// Member of an experiment's group that uses the Java client: java -cp ... LabMember SETTINGS
// SETTINGS is the JSON of kohort.lab.member_settings; kohort.lab.events describes the output. It leaves on SIGTERM.
// It counts records per key in a store per partition, as clients/application.py does for the Python clients.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class LabMember implements ConsumerRebalanceListener {
    final String topic;
    final String changelog;
    final int restoreMs;
    final long commitMs;
    final Map<String, Object> address;
    final KafkaConsumer<String, String> consumer;
    KafkaProducer<String, String> producer;

    final Set<Integer> owned = new HashSet<>();
    final Map<Integer, Map<String, Long>> counts = new HashMap<>();
    final Map<Integer, Set<String>> changed = new HashMap<>();
    final Map<Integer, Long> ends = new HashMap<>();
    long committedAt = System.nanoTime();

    LabMember(JsonNode settings) {
        topic = settings.get("topic").asText();
        changelog = settings.get("changelog").asText();
        restoreMs = settings.get("restore_ms").asInt();
        commitMs = settings.get("commit_ms").asLong();
        address = Map.of("bootstrap.servers", settings.get("bootstrap").asText());
        Map<String, Object> config = new HashMap<>(address);
        config.putAll(Map.of("group.id", settings.get("group").asText(), "client.id", settings.get("name").asText(),
            "enable.auto.commit", "false", "auto.offset.reset", "earliest",
            "metadata.max.age.ms", settings.get("metadata_ms").asText()));
        String protocol = settings.get("protocol").asText();
        if (protocol.equals("consumer")) {
            config.putAll(Map.of("group.protocol", "consumer", "group.remote.assignor", "uniform"));
        } else {
            String assignor = protocol.equals("eager") ? "RangeAssignor" : "CooperativeStickyAssignor";
            config.putAll(Map.of("session.timeout.ms", settings.get("session_ms").asText(),
                "heartbeat.interval.ms", settings.get("heartbeat_ms").asText(),
                "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor));
        }
        consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        if (!changelog.isEmpty()) {
            producer = new KafkaProducer<>(address, new StringSerializer(), new StringSerializer());
        }
    }

    static void say(String event, String more) {
        // One write per line, so that a killed process leaves no incomplete line.
        byte[] line = ("{\"event\":\"" + event + "\",\"at\":" + System.nanoTime() + more + "}\n").getBytes();
        System.out.write(line, 0, line.length);
        System.out.flush();
    }

    static void sayPartitions(String event, Collection<Integer> partitions) {
        say(event, ",\"partitions\":" + new TreeSet<>(partitions));
    }

    static List<Integer> numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).toList();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        List<Integer> won = numbers(partitions);
        sayPartitions("assigned", won);
        restore(won);
        owned.addAll(won);
        say("ready", "");
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        List<Integer> gone = numbers(partitions);
        sayPartitions("revoked", gone);
        settle(gone);
        forget(gone);
        say("ready", "");
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        List<Integer> gone = numbers(partitions);
        sayPartitions("lost", gone);
        forget(gone);
        say("ready", "");
    }

    void restore(List<Integer> partitions) {
        if (partitions.isEmpty()) {
            return;
        }
        try {
            Thread.sleep((long) restoreMs * partitions.size());
        } catch (InterruptedException ignored) {
            Thread.currentThread().interrupt();
        }
        partitions.forEach(one -> counts.put(one, new HashMap<>()));
        if (changelog.isEmpty()) {
            return;
        }
        try (KafkaConsumer<String, String> changes =
                new KafkaConsumer<>(address, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> wanted = partitions.stream().map(one -> new TopicPartition(changelog, one)).toList();
            changes.assign(wanted);
            changes.seekToBeginning(wanted);
            Map<TopicPartition, Long> until = changes.endOffsets(wanted);
            long records = 0;
            while (wanted.stream().anyMatch(one -> changes.position(one) < until.get(one))) {
                for (ConsumerRecord<String, String> one : changes.poll(Duration.ofMillis(100))) {
                    counts.get(one.partition()).put(one.key(), Long.valueOf(one.value()));
                    records++;
                }
            }
            say("restored", ",\"records\":" + records);
        }
    }

    void read(ConsumerRecords<String, String> records) {
        StringBuilder runs = new StringBuilder();
        for (TopicPartition partition : records.partitions()) {
            List<ConsumerRecord<String, String>> list = records.records(partition);
            int number = partition.partition();
            long first = list.get(0).offset();
            long last = first - 1;
            for (ConsumerRecord<String, String> one : list) {
                if (one.offset() != last + 1) {
                    runs.append(",[" + number + "," + first + "," + last + "]");
                    first = one.offset();
                }
                last = one.offset();
                counts.computeIfAbsent(number, none -> new HashMap<>()).merge(one.key(), 1L, Long::sum);
                changed.computeIfAbsent(number, none -> new HashSet<>()).add(one.key());
            }
            runs.append(",[" + number + "," + first + "," + last + "]");
            ends.put(number, last + 1);
        }
        if (runs.length() > 0) {
            say("read", ",\"runs\":[" + runs.substring(1) + "]");
        }
    }

    void settle(Collection<Integer> partitions) {
        // The counts are written first: a crash in between counts some records twice, but never too few.
        if (producer != null) {
            for (int one : partitions) {
                Set<String> keys = changed.remove(one);
                if (keys != null) {
                    keys.forEach(key -> producer.send(
                        new ProducerRecord<>(changelog, one, key, counts.get(one).get(key).toString())));
                }
            }
            producer.flush();
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (int one : partitions) {
            if (ends.containsKey(one)) {
                offsets.put(new TopicPartition(topic, one), new OffsetAndMetadata(ends.get(one)));
            }
        }
        if (offsets.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(offsets);
            offsets.keySet().forEach(one -> ends.remove(one.partition()));
            List<String> told = new ArrayList<>();
            offsets.forEach((one, end) -> told.add("[" + one.partition() + "," + end.offset() + "]"));
            say("committed", ",\"ends\":" + told);
        } catch (RebalanceInProgressException | CommitFailedException refused) {
            // The offsets are committed after the rebalance, or the new owners read the records again.
        }
    }

    void forget(Collection<Integer> partitions) {
        owned.removeAll(partitions);
        counts.keySet().removeAll(partitions);
        changed.keySet().removeAll(partitions);
        ends.keySet().removeAll(partitions);
    }

    void run() {
        say("joining", "");
        consumer.subscribe(List.of(topic), this);
        try {
            while (true) {
                read(consumer.poll(Duration.ofMillis(100)));
                if (commitMs > 0 && System.nanoTime() - committedAt >= commitMs * 1_000_000) {
                    settle(new ArrayList<>(owned));
                    committedAt = System.nanoTime();
                }
            }
        } catch (WakeupException leaving) {
            consumer.close();
        }
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        if (args.length > 1) {
            rehearse(json, args);
            return;
        }
        LabMember member = new LabMember(json.readTree(args[0]));
        Thread polling = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            member.consumer.wakeup();
            try {
                polling.join();
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        member.run();
    }

    // Run several members at once for a few seconds, which loads all classes that a member needs.
    static void rehearse(ObjectMapper json, String[] allSettings) throws Exception {
        List<LabMember> members = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (String settings : allSettings) {
            LabMember member = new LabMember(json.readTree(settings));
            members.add(member);
            threads.add(new Thread(member::run));
        }
        threads.forEach(Thread::start);
        Thread.sleep(6_000);
        members.forEach(member -> member.consumer.wakeup());
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
