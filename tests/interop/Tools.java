// Console tools of Apache Kafka in one JVM: java -cp 'JARS/*' Tools.java
// Each line of stdin is a JSON list of a main class and its arguments. The answer is a line with the exit code and the
// output of the tool, stderr included.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

public class Tools {
    static volatile CompletableFuture<Integer> ended;

    // A tool that exits stands still instead: it may catch whatever is thrown, and exit once more.
    static void exit(int code, String message) {
        ended.complete(code);
        while (true) {
            LockSupport.park();
        }
    }

    static void run(String[] command) {
        try {
            Object arguments = Arrays.copyOfRange(command, 1, command.length);
            Class.forName(command[0]).getMethod("main", String[].class).invoke(null, arguments);
            ended.complete(0);
        } catch (ReflectiveOperationException thrown) {
            thrown.printStackTrace();
            ended.complete(1);
        }
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        // Set once: Scala keeps the stream that it finds first.
        System.setOut(new PrintStream(output, true));
        System.setErr(System.out);
        Exit.setExitProcedure(Tools::exit);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] command = json.readValue(line, String[].class);
            ended = new CompletableFuture<>();
            Thread tool = new Thread(() -> run(command));
            tool.setDaemon(true);
            tool.start();
            int code = ended.get();
            answers.println(json.writeValueAsString(Map.of("code", code, "output", output.toString())));
            output.reset();
        }
    }
}
