// Golden bytes of Kafka's messages, written by Kafka's own generated classes.
//
// java -cp "LIBS/*" MessageVectors.java SPEC OUT
//
// SPEC has one line for each message: its name and the first and last version, as in "FetchRequest 4 18".
// OUT gets one line of JSON for each message: {"name": ..., "cases": [[version, case, value, base64], ...]}, where value
// is the message as Kafka's JSON converters have it and base64 what it is on the wire.
//
// Values are made from the definitions inside the jars (common/message/*.json), so that every field that a version has
// is set, and from a counter, so that no two are alike and every run gives the same. The cases:
//   default  nothing is set
//   full     everything is set, tagged fields too; arrays have two elements
//   null     whatever may be null is null; tagged fields have their defaults; arrays have one element
//   edge     largest, smallest, empty and long values; arrays of numbers have 130 elements, arrays of structs none or one

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class MessageVectors {
    static final JsonNodeFactory F = JsonNodeFactory.instance;
    static final ObjectMapper MAPPER = new ObjectMapper().enable(JsonParser.Feature.ALLOW_COMMENTS);
    static final List<String> PACKAGES = List.of(
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.coordinator.transaction.generated.");

    public static void main(String[] args) throws Exception {
        try (PrintStream out = new PrintStream(args[1], StandardCharsets.UTF_8)) {
            for (String line : Files.readAllLines(Path.of(args[0]))) {
                String[] words = line.split(" ");
                out.println(MAPPER.writeValueAsString(
                    message(words[0], Short.parseShort(words[1]), Short.parseShort(words[2]))));
            }
        }
    }

    static ObjectNode message(String name, short first, short last) throws Exception {
        JsonNode definition;
        try (InputStream in = MessageVectors.class.getResourceAsStream("/common/message/" + name + ".json")) {
            definition = MAPPER.readTree(in);
        }
        Class<?> type = find(name);
        ArrayNode cases = F.arrayNode();
        for (short version = first; version <= last; version++) {
            add(cases, version, "default", type, (Message) type.getConstructor().newInstance(), null);
            for (String kind : List.of("full", "null", "edge")) {
                JsonNode value = new Filler(definition, version, kind).struct(definition.get("fields"), 0);
                add(cases, version, kind, type, read(type, value, version), value);
            }
        }
        return F.objectNode().put("name", name).set("cases", cases);
    }

    static Class<?> find(String name) throws ClassNotFoundException {
        for (String folder : PACKAGES) {
            for (String suffix : List.of("Data", "")) {
                try {
                    return Class.forName(folder + name + suffix);
                } catch (ClassNotFoundException e) {
                    // it is in another package
                }
            }
        }
        throw new ClassNotFoundException(name);
    }

    static Message read(Class<?> type, JsonNode value, short version) throws Exception {
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        return (Message) converter.getMethod("read", JsonNode.class, short.class).invoke(null, value, version);
    }

    // The value is what the message was read from; the converters would leave record sets out when writing.
    static void add(ArrayNode cases, short version, String kind, Class<?> type, Message message, JsonNode value)
            throws Exception {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes;
        try {
            bytes = ByteBuffer.allocate(message.size(cache, version));
        } catch (NullPointerException e) {
            return; // a default that is null where this version has no null
        }
        message.write(new ByteBufferAccessor(bytes), cache, version);
        if (value == null) {
            Class<?> converter = Class.forName(type.getName() + "JsonConverter");
            value = (JsonNode) converter.getMethod("write", type, short.class).invoke(null, message, version);
        }
        cases.add(F.arrayNode().add(version).add(kind).add(value)
            .add(Base64.getEncoder().encodeToString(bytes.array())));
    }

    static class Filler {
        final Map<String, JsonNode> structs = new HashMap<>();
        final short version;
        final String kind;
        int counter = 0;

        Filler(JsonNode definition, short version, String kind) {
            this.version = version;
            this.kind = kind;
            for (JsonNode common : definition.path("commonStructs")) {
                structs.put(common.get("name").asText(), common.get("fields"));
            }
        }

        boolean within(JsonNode range) {
            if (range == null || range.asText().equals("none")) {
                return false;
            }
            String text = range.asText();
            if (text.endsWith("+")) {
                return version >= Integer.parseInt(text.substring(0, text.length() - 1));
            }
            String[] ends = text.split("-");
            return version >= Integer.parseInt(ends[0]) && version <= Integer.parseInt(ends[ends.length - 1]);
        }

        ObjectNode struct(JsonNode fields, int depth) {
            ObjectNode made = F.objectNode();
            for (JsonNode field : fields) {
                boolean tagged = within(field.get("taggedVersions"));
                if (!within(field.get("versions")) || (tagged && kind.equals("null"))) {
                    continue;
                }
                String name = field.get("name").asText();
                made.set(Character.toLowerCase(name.charAt(0)) + name.substring(1), value(field, depth));
            }
            return made;
        }

        JsonNode value(JsonNode field, int depth) {
            if (kind.equals("null") && within(field.get("nullableVersions"))) {
                return F.nullNode();
            }
            String type = field.get("type").asText();
            if (!type.startsWith("[]")) {
                return one(type, field, depth);
            }
            String element = type.substring(2);
            boolean isStruct = Character.isUpperCase(element.charAt(0));
            int size = kind.equals("full") ? 2 : 1;
            if (kind.equals("edge")) {
                size = isStruct ? (depth == 0 || counter % 3 > 0 ? 1 : 0) : element.startsWith("int") ? 130 : counter % 2;
            }
            ArrayNode made = F.arrayNode();
            for (int i = 0; i < size; i++) {
                made.add(one(element, field, depth));
            }
            return made;
        }

        JsonNode one(String type, JsonNode field, int depth) {
            counter++;
            boolean edge = kind.equals("edge");
            boolean odd = counter % 2 == 1;
            switch (type) {
                case "bool":
                    return F.booleanNode(!odd || edge);
                case "int8":
                    return F.numberNode((byte) (edge ? (odd ? Byte.MAX_VALUE : Byte.MIN_VALUE) : counter % 100));
                case "int16":
                    return F.numberNode((short) (edge ? (odd ? Short.MAX_VALUE : Short.MIN_VALUE) : 300 + counter));
                case "uint16":
                    return F.numberNode(edge ? 65535 : 40000 + counter);
                case "int32":
                    return F.numberNode(edge ? (odd ? Integer.MAX_VALUE : Integer.MIN_VALUE) : 70000 + counter);
                case "int64":
                    return F.numberNode(edge ? (odd ? Long.MAX_VALUE : Long.MIN_VALUE) : (1L << 40) + counter);
                case "float64":
                    return F.numberNode(edge ? -0.0 : counter + 0.25);
                case "uuid":
                    return F.textNode(new Uuid(edge ? -1 : 0x0123456789abcdefL, edge ? -counter : counter).toString());
                case "string":
                    return F.textNode(edge ? (odd ? "" : "\u00e9\u2603\ud83d\ude00".repeat(40)) : "text-" + counter);
                case "bytes":
                    return binary(edge ? (odd ? 0 : 200) : 5);
                case "records":
                    return binary(edge ? 300 : 7);
                default:
                    JsonNode fields = field.has("fields") ? field.get("fields") : structs.get(type);
                    return struct(fields, depth + 1);
            }
        }

        BinaryNode binary(int size) {
            byte[] bytes = new byte[size];
            for (int i = 0; i < size; i++) {
                bytes[i] = (byte) (counter + i);
            }
            return F.binaryNode(bytes);
        }
    }
}
