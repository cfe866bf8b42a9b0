import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.security.authorizer.AclEntry;

/** Prints each type of resource with the operations that Kafka's tool accepts for it. */
public class SupportedOperations {
    public static void main(String[] args) {
        for (ResourceType type : ResourceType.values()) {
            if (type != ResourceType.UNKNOWN && type != ResourceType.ANY) {
                System.out.println(type + " " + AclEntry.supportedOperations(type));
            }
        }
    }
}
