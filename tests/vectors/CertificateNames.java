import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.HexFormat;

/** Prints the name that Kafka gives to the client of each certificate file, in hex, one a line. */
public class CertificateNames {
    public static void main(String[] files) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        for (String file : files) {
            try (var input = Files.newInputStream(Path.of(file))) {
                X509Certificate certificate = (X509Certificate) factory.generateCertificate(input);
                byte[] name = certificate.getSubjectX500Principal().getName().getBytes(StandardCharsets.UTF_8);
                System.out.println(HexFormat.of().formatHex(name));
            }
        }
    }
}
