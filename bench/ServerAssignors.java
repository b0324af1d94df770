// What Apache Kafka's server assignors need for the groups of bench_server_assignors.py: MEMBERS PARTITIONS CHANGES
// After 20 rounds of warming up: a fresh target, then the median update after one member left and after one joined. The
// coordinator's own bookkeeping (who owns which partition) is made outside of what is measured.

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
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

public class ServerAssignors {
    private static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();
    private static Map<String, Map<Uuid, Set<Integer>>> targets;

    public static void main(String[] args) {
        int members = Integer.parseInt(args[0]), partitions = Integer.parseInt(args[1]), changes = Integer.parseInt(args[2]);
        for (ConsumerGroupPartitionAssignor assignor : List.of(new UniformAssignor(), new RangeAssignor()))
            for (int topics : new int[] {10, 100, 1000})
                measure(assignor, members, partitions, topics, Math.min(changes, 50));
    }

    private static void measure(
        ConsumerGroupPartitionAssignor assignor, int members, int partitions, int topics, int changes
    ) {
        Set<Uuid> subscription = new java.util.HashSet<>();
        while (subscription.size() < topics) subscription.add(Uuid.randomUuid());
        double fresh = Double.MAX_VALUE;
        for (int round = 0; round < 20; round++) {
            targets = new LinkedHashMap<>();
            for (int n = 0; n < members; n++) targets.put("member-" + n, Map.of());
            fresh = Math.min(fresh, update(assignor, subscription, partitions / topics));
        }
        double[] leaves = new double[changes], joins = new double[changes];
        for (int round = 0; round < changes; round++) {
            targets.remove("member-" + round * (members / changes));
            leaves[round] = update(assignor, subscription, partitions / topics);
            targets.put("newcomer-" + round, Map.of());
            joins[round] = update(assignor, subscription, partitions / topics);
        }
        Arrays.sort(leaves);
        Arrays.sort(joins);
        System.out.printf("%-10s %-20s fresh %7.1f   one leaves %7.3f   one joins %7.3f   Apache Kafka%n",
            assignor.name(), topics + " topics", fresh, leaves[changes / 2], joins[changes / 2]);
    }

    /** Milliseconds of CPU time, without the garbage collector's. */
    private static double update(ConsumerGroupPartitionAssignor assignor, Set<Uuid> subscription, int each) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        targets.forEach((id, target) -> {
            target.forEach((topic, numbers) ->
                numbers.forEach(n -> owners.computeIfAbsent(topic, t -> new HashMap<>()).put(n, id)));
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), subscription, new Assignment(target)));
        });
        GroupSpecImpl group = new GroupSpecImpl(members, SubscriptionType.HOMOGENEOUS, owners);
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return each;
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        long begun = CLOCK.getCurrentThreadCpuTime();
        GroupAssignment made = assignor.assign(group, topics);
        double spent = (CLOCK.getCurrentThreadCpuTime() - begun) / 1e6;
        Map<String, Map<Uuid, Set<Integer>>> next = new LinkedHashMap<>();
        targets.keySet().forEach(id -> next.put(id, made.members().containsKey(id)
            ? Collections.unmodifiableMap(made.members().get(id).partitions()) : Map.of()));
        targets = next;
        return spent;
    }
}
