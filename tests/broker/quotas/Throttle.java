import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.server.quota.QuotaUtils;

/**
 * Prints how long Apache Kafka throttles a client, in milliseconds. Reads lines "new WINDOWS SECONDS LIMIT", which begin
 * another client, and "BYTES TIME". Negative bytes are taken back, and print nothing.
 */
public class Throttle {
    public static void main(String[] arguments) {
        Metrics metrics = new Metrics();
        Sensor sensor = null;
        int clients = 0;
        for (String line : new Scanner(System.in).useDelimiter("\\A").next().split("\n")) {
            String[] words = line.split(" ");
            if (words[0].equals("new")) {
                MetricConfig config = new MetricConfig()
                    .samples(Integer.parseInt(words[1]))
                    .timeWindow(Long.parseLong(words[2]), TimeUnit.SECONDS)
                    .quota(new Quota(Double.parseDouble(words[3]), true));
                String name = "client-" + clients++;
                sensor = metrics.sensor(name);
                sensor.add(metrics.metricName(name, "test"), new Rate(), config);
                continue;
            }
            double bytes = Double.parseDouble(words[0]);
            long time = Long.parseLong(words[1]);
            if (bytes < 0) {
                sensor.record(bytes, time, false);
                continue;
            }
            try {
                sensor.record(bytes, time, true);
                System.out.println(0);
            } catch (QuotaViolationException violation) {
                System.out.println(QuotaUtils.throttleTime(violation, time));
            }
        }
    }
}
