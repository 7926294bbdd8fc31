import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Client-side caching of Lettuce: entries of the client's map are removed when the key is changed, expired or evicted. */
public final class CheckLettuceCache {
    public static void main(String[] arguments) throws Exception {
        Programs.endOnFailure();
        RedisClient client = RedisClient.create(RedisURI.create("127.0.0.1", Programs.PORT));
        try (StatefulRedisConnection<String, String> reader = client.connect();
                StatefulRedisConnection<String, String> other = client.connect()) {
            RedisCommands<String, String> writer = other.sync();
            Map<String, String> map = new ConcurrentHashMap<>();
            CacheFrontend<String, String> frontend =
                    ClientSideCaching.enable(CacheAccessor.forMap(map), reader, TrackingArgs.Builder.enabled());

            writer.set("a", "1");
            Programs.require("1".equals(frontend.get("a")) && "1".equals(map.get("a")), "the value is not cached");
            writer.set("a", "2");
            Programs.until("a changed key is invalidated", () -> !map.containsKey("a"));
            Programs.require("2".equals(frontend.get("a")), "a wrong value");

            writer.psetex("short", 300, "1");
            Programs.require("1".equals(frontend.get("short")), "a wrong value");
            Programs.until("an expired key is invalidated", () -> !map.containsKey("short"));
            Programs.require(frontend.get("short") == null, "an expired value");

            Programs.require("loaded".equals(frontend.get("absent", () -> "loaded")), "the value was not loaded");
            Programs.require("loaded".equals(writer.get("absent")), "the loaded value was not stored");
            writer.del("a");
            Programs.until("a deleted key is invalidated", () -> !map.containsKey("a"));
        }
        client.shutdown();
    }
}
