// Reads ACLs and questions from standard input and prints what Apache Kafka's StandardAuthorizer answers.
//   acl TYPE PATTERN NAME PRINCIPAL HOST OPERATION PERMISSION
//   ask PRINCIPAL HOST OPERATION TYPE NAME
//   any PRINCIPAL HOST OPERATION TYPE    (with any resource of the type)
//   open    (allow everyone if no ACL is found)
//   next    (forget all)
// Fields are separated by tabs. Each question is answered with ALLOWED or DENIED.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

public class Authorize {
    record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "client"; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false);
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        StandardAuthorizer authorizer = null;
        boolean open = false;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "next" -> { acls.clear(); authorizer = null; open = false; }
                case "open" -> open = true;
                case "acl" -> acls.put(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.valueOf(words[1]), words[3], PatternType.valueOf(words[2]), words[4], words[5],
                    AclOperation.valueOf(words[6]), AclPermissionType.valueOf(words[7])));
                default -> {
                    if (authorizer == null) authorizer = made(acls, open);
                    Client client = new Client(SecurityUtils.parseKafkaPrincipal(words[1]), InetAddress.getByName(words[2]));
                    AclOperation operation = AclOperation.valueOf(words[3]);
                    ResourceType type = ResourceType.valueOf(words[4]);
                    if (words[0].equals("any")) {
                        out.println(authorizer.authorizeByResourceType(client, operation, type));
                    } else {
                        ResourcePattern resource = new ResourcePattern(type, words[5], PatternType.LITERAL);
                        out.println(authorizer.authorize(client, List.of(new Action(operation, resource, 1, false, false))).get(0));
                    }
                }
            }
        }
        out.flush();
    }

    private static StandardAuthorizer made(Map<Uuid, StandardAcl> acls, boolean open) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("super.users", "User:root", "allow.everyone.if.no.acl.found", open, "node.id", 1));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.loadSnapshot(new HashMap<>(acls));
        authorizer.completeInitialLoad();
        return authorizer;
    }
}
