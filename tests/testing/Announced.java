import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.Optional;

/** Prints the requests that a broker of each kafka-clients jar announces: file, API key, lowest and highest version. */
public class Announced {
    public static void main(String[] jars) throws Exception {
        for (String jar : jars) {
            URL[] urls = {Path.of(jar).toUri().toURL()};
            // A loader of its own for each release: all of them have the same classes.
            try (URLClassLoader loader = new URLClassLoader(urls, Announced.class.getClassLoader())) {
                print(jar, loader.loadClass("org.apache.kafka.common.protocol.ApiKeys"));
            }
        }
    }

    private static void print(String jar, Class<?> keys) throws Exception {
        Method announced = null;
        try {
            announced = keys.getMethod("toApiVersion", boolean.class);
        } catch (NoSuchMethodException older) {
            // These releases announce the latest version of every request.
        }
        for (Object key : keys.getEnumConstants()) {
            Object lowest;
            Object highest;
            if (announced == null) {
                lowest = keys.getMethod("oldestVersion").invoke(key);
                highest = keys.getMethod("latestVersion").invoke(key);
            } else {
                // false: without unstable.api.versions.enable
                Object versions = ((Optional<?>) announced.invoke(key, false)).orElse(null);
                if (versions == null) {
                    continue;
                }
                lowest = versions.getClass().getMethod("minVersion").invoke(versions);
                highest = versions.getClass().getMethod("maxVersion").invoke(versions);
            }
            System.out.println(jar + " " + keys.getField("id").getShort(key) + " " + lowest + " " + highest);
        }
    }
}
