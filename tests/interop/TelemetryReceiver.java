import java.util.*;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.*;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;

public class TelemetryReceiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    public void init(List<KafkaMetric> metrics) {}
    public void metricChange(KafkaMetric metric) {}
    public void metricRemoval(KafkaMetric metric) {}
    public void close() {}
    public void configure(Map<String, ?> configs) {}
    public ClientTelemetryReceiver clientReceiver() { return this; }
    public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        try { MetricsData.parseFrom(payload.data()); }
        catch (Exception e) { throw new RuntimeException(e); }
    }
}
