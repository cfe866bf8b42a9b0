import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints each error code of Kafka's protocol: number, name, and whether a client may try again. */
public class ErrorCodes {
    public static void main(String[] args) {
        for (Errors error : Errors.values()) {
            System.out.println(
                error.code() + " " + error.name() + " " + (error.exception() instanceof RetriableException));
        }
    }
}
