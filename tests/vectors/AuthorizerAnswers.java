// Asks Kafka's own StandardAuthorizer: lists of rules and questions come from a file, answers go to standard output.

import java.io.BufferedReader;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
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
import org.apache.kafka.server.authorizer.AuthorizationResult;

public class AuthorizerAnswers {
    record Client(KafkaPrincipal principal, InetAddress address) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public InetAddress clientAddress() { return address; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "c"; }
        public int correlationId() { return 0; }
    }

    static StandardAuthorizer made(String superUsers, String allowEveryone, Map<Uuid, StandardAcl> acls) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", allowEveryone));
        try (Metrics metrics = new Metrics()) {  // it counts its answers there
            authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        return authorizer;
    }

    public static void main(String[] args) throws Exception {
        StringBuilder answers = new StringBuilder();
        StandardAuthorizer authorizer = null;
        String[] settings = null;
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        try (BufferedReader lines = Files.newBufferedReader(Path.of(args[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] part = line.split("\t", -1);
                if (part[0].equals("L")) {
                    settings = part;
                    acls = new HashMap<>();
                    authorizer = null;
                } else if (part[0].equals("A")) {
                    acls.put(Uuid.randomUuid(), new StandardAcl(ResourceType.valueOf(part[1]), part[2],
                        PatternType.valueOf(part[7]), part[3], part[5], AclOperation.valueOf(part[4]),
                        AclPermissionType.valueOf(part[6])));
                } else {
                    if (authorizer == null) authorizer = made(settings[1], settings[2], acls);
                    Client client = new Client(SecurityUtils.parseKafkaPrincipal(part[1]), InetAddress.getByName(part[2]));
                    AclOperation operation = AclOperation.valueOf(part[3]);
                    ResourceType type = ResourceType.valueOf(part[4]);
                    AuthorizationResult result = part[0].equals("T")
                        ? authorizer.authorizeByResourceType(client, operation, type)
                        : authorizer.authorize(client, List.of(new Action(operation,
                            new ResourcePattern(type, part[5], PatternType.LITERAL), 1, false, false))).get(0);
                    answers.append(result == AuthorizationResult.ALLOWED ? '1' : '0');
                }
            }
        }
        System.out.println(answers);
    }
}
