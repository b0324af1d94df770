// Reads groups from standard input and prints what the server assignors of Apache Kafka give them, one update after the other.
//   group NAME | topic N COUNT | member ID INSTANCE N,... | leave ID | update | go
// "-" stands for nothing; topics are numbers, and N stands for the id that has it as its last bits. "update" computes
// with the targets of the last one and prints "ID N-PARTITION,..." per member and a line with a dot.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class ServerAssign {
    private record Member(Optional<String> instance, Set<Uuid> topics) { }

    private static Map<Uuid, Integer> topics = new HashMap<>();
    private static Map<String, Member> members = new LinkedHashMap<>();
    private static Map<String, Map<Uuid, Set<Integer>>> targets = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        ConsumerGroupPartitionAssignor assignor = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "group" -> {
                    assignor = words[1].equals("range") ? new RangeAssignor() : new UniformAssignor();
                    topics = new HashMap<>();
                    members = new LinkedHashMap<>();
                    targets = new HashMap<>();
                }
                case "topic" -> topics.put(topic(words[1]), Integer.parseInt(words[2]));
                case "member" -> {
                    Optional<String> instance = words[2].equals("-") ? Optional.empty() : Optional.of(words[2]);
                    Set<Uuid> asked = Arrays.stream(words[3].split(",")).map(ServerAssign::topic).collect(Collectors.toSet());
                    members.put(words[1], new Member(instance, asked));
                }
                case "leave" -> {
                    members.remove(words[1]);
                    targets.remove(words[1]);
                }
                case "update" -> print(update(assignor));
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private static Uuid topic(String number) {
        return new Uuid(0, Long.parseLong(number));
    }

    private static GroupAssignment update(ConsumerGroupPartitionAssignor assignor) {
        Map<String, MemberSubscriptionAndAssignmentImpl> spec = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        members.forEach((id, member) -> {
            Map<Uuid, Set<Integer>> target = targets.getOrDefault(id, Map.of());
            target.forEach((topic, numbers) ->
                numbers.forEach(n -> owners.computeIfAbsent(topic, t -> new HashMap<>()).put(n, id)));
            spec.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), member.instance, member.topics, new Assignment(target)));
        });
        boolean alike = members.values().stream().map(Member::topics).distinct().count() <= 1;
        SubscriptionType type = alike ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment made = assignor.assign(new GroupSpecImpl(spec, type, owners), new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return topics.getOrDefault(topic, -1);
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        });
        targets = new HashMap<>();
        made.members().forEach((id, target) -> targets.put(id, Collections.unmodifiableMap(target.partitions())));
        return made;
    }

    private static void print(GroupAssignment made) {
        new TreeMap<>(made.members()).forEach((id, target) -> System.out.println(id + " " + target.partitions().entrySet().stream()
            .flatMap(entry -> entry.getValue().stream().map(n -> entry.getKey().getLeastSignificantBits() + "-" + n))
            .collect(Collectors.joining(","))));
        System.out.println(".");
    }
}
