import java.lang.reflect.Field;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints Apache Kafka's settings, tab-separated: kind, name, type, default, validator, update mode. */
public class Settings {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        print("broker", kafka.server.KafkaConfig.configDef(), modes);
        print("topic", definition(LogConfig.class, "CONFIG"), Map.of());
        print("group", GroupConfig.CONFIG_DEF, Map.of());
    }

    private static ConfigDef definition(Class<?> owner, String name) throws ReflectiveOperationException {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return (ConfigDef) field.get(null);
    }

    private static void print(String kind, ConfigDef settings, Map<String, String> modes) {
        for (ConfigDef.ConfigKey key : settings.configKeys().values()) {
            String mode = modes.getOrDefault(key.name, "read-only");
            System.out.println(String.join("\t", kind, key.name, key.type.name(), String.valueOf(key.defaultValue),
                String.valueOf(key.validator), mode));
        }
    }
}
