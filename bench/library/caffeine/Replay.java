// Miss ratio of Caffeine over keys that `mayfly-library-bench export` wrote.
//   mvn dependency:copy -Dartifact=com.github.ben-manes.caffeine:caffeine:3.2.0 -DoutputDirectory=.
//   java -cp caffeine-3.2.0.jar Replay.java KEYS ENTRIES...
import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

class Replay {
    public static void main(String[] arguments) throws Exception {
        byte[] bytes = Files.readAllBytes(Path.of(arguments[0]));
        for (int at = 1; at < arguments.length; at++) {
            long entries = Long.parseLong(arguments[at]);
            // Maintenance runs in the calling thread, so that results can be repeated.
            Cache<Long, Long> cache =
                Caffeine.newBuilder().maximumSize(entries).executor(Runnable::run).build();
            LongBuffer keys = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
            long misses = 0;
            for (long number = 0; keys.hasRemaining(); number++) {
                Long key = keys.get();
                if (cache.getIfPresent(key) == null) {
                    misses++;
                    cache.put(key, key);
                }
                // As often as for moka.
                if (number % 64 == 0) {
                    cache.cleanUp();
                }
            }
            System.out.printf("%d entries: %.4f%n", entries, misses / (bytes.length / 8.0));
        }
    }
}
