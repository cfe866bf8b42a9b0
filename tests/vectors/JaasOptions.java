import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/** Prints the options of each login of a file (one in hex a line), as Kafka's clients read it. */
public class JaasOptions {
    private static String hex(Object text) {
        return HexFormat.of().formatHex(String.valueOf(text).getBytes(StandardCharsets.UTF_8));
    }

    public static void main(String[] arguments) throws Exception {
        StringBuilder printed = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String text = new String(HexFormat.of().parseHex(line), StandardCharsets.UTF_8);
            try {
                JaasContext context = JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(text)));
                StringBuilder options = new StringBuilder();
                new TreeMap<>(context.configurationEntries().get(0).getOptions())
                    .forEach((name, value) -> options.append(' ').append(hex(name)).append('=').append(hex(value)));
                printed.append("taken").append(options).append('\n');
            } catch (RuntimeException refused) {
                printed.append("refused\n");
            }
        }
        System.out.print(printed);
    }
}
