// Counts the words of a topic with Kafka Streams, exactly once, until it is told to end:
// java -cp 'JARS/*' Streams.java BOOTSTRAP FROM TO STATE_DIRECTORY [NAME=VALUE of the configuration]...
// A record's value is a word; TO gets the word as key and its count so far as value, for each record. Between the two
// are topics that Kafka Streams makes itself: one in which each word has its partition, and the store's changelog.

import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

public class Streams {
    public static void main(String[] args) {
        String bootstrap = args[0], from = args[1], to = args[2];
        Properties given = new Properties();
        given.put(StreamsConfig.APPLICATION_ID_CONFIG, to + "-counting");
        given.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        given.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        given.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, "1");
        given.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        for (int at = 4; at < args.length; at++) {
            String[] parts = args[at].split("=", 2);
            given.put(parts[0], parts[1]);
        }

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(from, Consumed.with(Serdes.String(), Serdes.String()))
                .selectKey((key, word) -> word)
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                // Without a cache each record gives a count, so that none may be missing.
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long())
                        .withCachingDisabled())
                .toStream()
                .mapValues(String::valueOf)
                .to(to, Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), given);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            if (now == KafkaStreams.State.ERROR) Runtime.getRuntime().halt(1);
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
