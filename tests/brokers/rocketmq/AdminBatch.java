import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs mqadmin commands from standard input, one a line, in one JVM: a JVM for each takes seconds. */
public class AdminBatch {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            if (!line.isBlank()) {
                System.out.println("> " + line);
                forgetCommands();
                MQAdminStartup.main(line.trim().split("\\s+"));
            }
        }
        System.exit(0);
    }

    /** Some commands can run only once; each run makes new ones behind the old. The list's name varies by version. */
    private static void forgetCommands() throws IllegalAccessException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (field.getType() == List.class) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }
}
