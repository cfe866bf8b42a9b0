import java.lang.reflect.Field;
import java.util.Collection;
import java.util.TreeSet;

/** Prints, for each state of a member of Java's consumer under the consumer protocol, the states that may come before it. */
public class MemberStates {
    public static void main(String[] args) throws Exception {
        Class<?> states = Class.forName("org.apache.kafka.clients.consumer.internals.MemberState");
        Field before = states.getDeclaredField("previousValidStates");
        before.setAccessible(true);
        for (Object state : states.getEnumConstants()) {
            TreeSet<String> names = new TreeSet<>();
            for (Object one : (Collection<?>) before.get(state)) {
                names.add(one.toString());
            }
            System.out.println(state + "\t" + String.join(",", names));
        }
    }
}
