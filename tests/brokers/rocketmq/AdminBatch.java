import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs mqadmin commands from standard input, one a line, in one JVM: a JVM for each takes seconds. */
public class AdminBatch {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            if (!line.isBlank()) {
                System.out.println("> " + line);
                MQAdminStartup.main(line.trim().split("\\s+"));
            }
        }
        System.exit(0);
    }
}
