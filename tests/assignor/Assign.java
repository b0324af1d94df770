// Reads groups from standard input and prints what the assignors of Apache Kafka's client give them.
//   assignor NAME | topic NAME COUNT RACK,...;... | member ID INSTANCE GENERATION TOPIC,... TOPIC-N,... USERDATA RACK | go
// "-" stands for nothing; the racks are those of each partition's replicas. Each group is answered with "ID TOPIC-N,..." per member and a line with a dot.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class Assign {
    private static final Node NODE = new Node(0, "localhost", 9092);

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        ConsumerPartitionAssignor assignor = null;
        List<PartitionInfo> partitions = new ArrayList<>();
        Map<String, Subscription> members = new LinkedHashMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "assignor" -> assignor = named(words[1]);
                case "topic" -> {
                    String[] racks = words[3].equals("-") ? new String[0] : words[3].split(";");
                    for (int n = 0; n < Integer.parseInt(words[2]); n++) {
                        Node[] replicas = racks.length == 0 ? new Node[] {NODE} : in(racks[n]);
                        partitions.add(new PartitionInfo(words[1], n, NODE, replicas, replicas));
                    }
                }
                case "member" -> members.put(words[1], subscription(words));
                case "go" -> {
                    Cluster cluster = new Cluster("cluster", List.of(NODE), partitions, Set.of(), Set.of());
                    print(assignor.assign(cluster, new GroupSubscription(members)).groupAssignment());
                    partitions.clear();
                    members.clear();
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private static ConsumerPartitionAssignor named(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static Subscription subscription(String[] words) {
        List<TopicPartition> owned = new ArrayList<>();
        for (String word : list(words[5])) {
            int dash = word.lastIndexOf('-');
            owned.add(new TopicPartition(word.substring(0, dash), Integer.parseInt(word.substring(dash + 1))));
        }
        ByteBuffer userData = words[6].equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(words[6]));
        Optional<String> rack = words[7].equals("-") ? Optional.empty() : Optional.of(words[7]);
        Subscription made =
            new Subscription(list(words[4]), userData, owned, Integer.parseInt(words[3]), rack);
        if (!words[2].equals("-")) made.setGroupInstanceId(Optional.of(words[2]));
        return made;
    }

    private static Node[] in(String racks) {
        return list(racks).stream().map(rack -> new Node(rack.charAt(0), "localhost", 9092, rack)).toArray(Node[]::new);
    }

    private static List<String> list(String word) {
        return word.equals("-") ? List.of() : Arrays.asList(word.split(","));
    }

    private static void print(Map<String, Assignment> made) {
        new TreeMap<>(made).forEach((id, assignment) -> System.out.println(id + " " + assignment.partitions().stream()
            .map(TopicPartition::toString).collect(Collectors.joining(","))));
        System.out.println(".");
    }
}
