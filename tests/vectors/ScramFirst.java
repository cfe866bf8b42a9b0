import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import javax.security.sasl.SaslException;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ClientFirstMessage;

/** Reads first messages of SCRAM, in hex, one a line. Prints the user's name in hex for each, or "refused". */
public class ScramFirst {
    public static void main(String[] arguments) throws Exception {
        ScramFormatter formatter = new ScramFormatter(ScramMechanism.SCRAM_SHA_256);
        StringBuilder answers = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            try {
                ClientFirstMessage message = new ClientFirstMessage(HexFormat.of().parseHex(line));
                String user = ScramFormatter.username(message.saslName());
                String as = message.authorizationId();
                boolean same = as.isEmpty() || as.equals(user);
                answers.append(same ? HexFormat.of().formatHex(user.getBytes("UTF-8")) : "refused");
            } catch (SaslException | IllegalArgumentException refused) {
                answers.append("refused");
            }
            answers.append('\n');
        }
        System.out.print(answers);
    }
}
