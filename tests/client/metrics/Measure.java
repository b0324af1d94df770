import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Avg;
import org.apache.kafka.common.metrics.stats.CumulativeCount;
import org.apache.kafka.common.metrics.stats.CumulativeSum;
import org.apache.kafka.common.metrics.stats.Max;
import org.apache.kafka.common.metrics.stats.Min;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.WindowedCount;

/**
 * Prints what Apache Kafka's metrics are. Reads lines "new WINDOWS WINDOW_MS", which begin other measurements, "VALUE
 * TIME", and "read TIME", which prints rate, rate of the number, average, largest, smallest, sum and number.
 */
public class Measure {
    public static void main(String[] arguments) {
        Metrics metrics = new Metrics();
        String[] names = {"rate", "count-rate", "avg", "max", "min", "total", "count"};
        Sensor sensor = null;
        int sensors = 0;
        for (String line : new Scanner(System.in).useDelimiter("\\A").next().split("\n")) {
            String[] words = line.split(" ");
            if (words[0].equals("new")) {
                MetricConfig config = new MetricConfig().samples(Integer.parseInt(words[1]))
                    .timeWindow(Long.parseLong(words[2]), TimeUnit.MILLISECONDS);
                sensor = metrics.sensor("sensor-" + ++sensors, config);
                sensor.add(name(metrics, names[0], sensors), new Rate());
                sensor.add(name(metrics, names[1], sensors), new Rate(new WindowedCount()));
                sensor.add(name(metrics, names[2], sensors), new Avg());
                sensor.add(name(metrics, names[3], sensors), new Max());
                sensor.add(name(metrics, names[4], sensors), new Min());
                sensor.add(name(metrics, names[5], sensors), new CumulativeSum());
                sensor.add(name(metrics, names[6], sensors), new CumulativeCount());
            } else if (words[0].equals("read")) {
                long now = Long.parseLong(words[1]);
                StringBuilder found = new StringBuilder();
                for (String one : names) {
                    KafkaMetric metric = metrics.metric(name(metrics, one, sensors));
                    found.append(metric.measurable().measure(metric.config(), now)).append(' ');
                }
                System.out.println(found.toString().trim());
            } else {
                sensor.record(Double.parseDouble(words[0]), Long.parseLong(words[1]));
            }
        }
    }

    private static MetricName name(Metrics metrics, String name, int sensor) {
        return metrics.metricName(name, "group-" + sensor);
    }
}
