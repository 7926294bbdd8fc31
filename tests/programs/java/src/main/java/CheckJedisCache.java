import java.util.Map;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.csc.Cache;
import redis.clients.jedis.csc.CacheConfig;
import redis.clients.jedis.csc.CacheFactory;

/** Client-side caching of Jedis: replies from the client's memory until the key is changed, expired or flushed. */
public final class CheckJedisCache {
    public static void main(String[] arguments) throws Exception {
        Programs.endOnFailure();
        HostAndPort address = new HostAndPort("127.0.0.1", Programs.PORT);
        DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3).build();
        Cache cache = CacheFactory.getCache(CacheConfig.builder().maxSize(100).build());
        try (UnifiedJedis reader = new UnifiedJedis(address, config, cache);
                UnifiedJedis writer = new UnifiedJedis(address, config)) {
            writer.set("a", "1");
            Programs.require("1".equals(reader.get("a")) && "1".equals(reader.get("a")), "a wrong value");
            Programs.require(cache.getStats().getHitCount() == 1, "the second reply does not come from the cache");
            writer.set("a", "2");
            Programs.until("a change is seen", () -> "2".equals(reader.get("a")));

            writer.hset("h", Map.of("x", "1", "y", "2"));
            Programs.require(reader.hgetAll("h").size() == 2, "a wrong hash");
            writer.hdel("h", "y");
            Programs.until("a removed field is seen", () -> reader.hgetAll("h").size() == 1);

            writer.psetex("short", 300, "1");
            Programs.require("1".equals(reader.get("short")), "a wrong value");
            Programs.until("an expired key is seen", () -> reader.get("short") == null);

            writer.flushAll();
            Programs.until("a flush is seen", () -> reader.get("a") == null);
            writer.set("a", "3");
            Programs.until("a key that was absent is seen", () -> "3".equals(reader.get("a")));
        }
    }
}
