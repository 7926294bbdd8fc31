import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.LocalCachedMapOptions;
import org.redisson.api.RBucket;
import org.redisson.api.RFuture;
import org.redisson.api.RLocalCachedMap;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RMapCache;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.IntegerCodec;
import org.redisson.config.Config;

/** Redisson: locks that are released, expired and acquired again, also after their holder was killed; maps whose entries expire. */
public final class CheckRedisson {
    private static final long LIMIT_S = Programs.LIMIT_MS / 1000;

    private static RedissonClient open() {
        Config config = new Config();
        config.useSingleServer()
                .setAddress("redis://127.0.0.1:" + Programs.PORT)
                .setConnectionMinimumIdleSize(2)
                .setConnectionPoolSize(16)
                .setSubscriptionConnectionMinimumIdleSize(1);
        return Redisson.create(config);
    }

    public static void main(String[] arguments) throws Exception {
        Programs.endOnFailure();
        RedissonClient one = open();
        if (arguments.length > 0) {
            one.getLock("killed").lock(2, TimeUnit.SECONDS);
            Thread.sleep(Programs.LIMIT_MS);
            return;
        }
        RedissonClient two = open();
        releasedAndAcquiredAgain(one, two);
        oneHolderAtATime(one, two);
        acquiredAfterItsHolderWasKilled(one);
        otherLocks(one, two);
        maps(one, two);
        one.shutdown();
        two.shutdown();
    }

    private static void releasedAndAcquiredAgain(RedissonClient one, RedissonClient two) throws Exception {
        RLock lock = one.getLock("released");
        RLock other = two.getLock("released");
        for (int i = 0; i < 2; i++) {
            Programs.require(lock.tryLock() && lock.tryLock(), "a free lock was not acquired, twice by its holder");
            Programs.require(lock.getHoldCount() == 2 && !other.tryLock(), "a lock was acquired by two");
            lock.unlock();
            Programs.require(!other.tryLock(), "a lock that was acquired twice was released once and acquired by another");
            // The waiting client is woken by a message, and not by the end of its wait.
            RFuture<Boolean> waiting = other.tryLockAsync(LIMIT_S, -1, TimeUnit.SECONDS, 1);
            lock.unlock();
            Programs.require(waiting.toCompletableFuture().get(LIMIT_S, TimeUnit.SECONDS), "the waiting client did not acquire the lock");
            other.unlockAsync(1).toCompletableFuture().get(LIMIT_S, TimeUnit.SECONDS);
            Programs.require(!lock.isLocked(), "the lock was not released");
        }
        lock.lock(300, TimeUnit.MILLISECONDS);
        Programs.require(other.tryLock(LIMIT_S, TimeUnit.SECONDS), "an expired lock was not acquired");
        Programs.require(!lock.isHeldByCurrentThread(), "an expired lock is held by its earlier holder");
        other.unlock();
    }

    private static void oneHolderAtATime(RedissonClient... clients) throws Exception {
        clients[0].getBucket("counter").set(0);
        List<Thread> threads = new ArrayList<>();
        for (RedissonClient client : clients) {
            for (int i = 0; i < 2; i++) {
                threads.add(new Thread(() -> {
                    RBucket<Integer> counter = client.getBucket("counter");
                    for (int run = 0; run < 20; run++) {
                        RLock lock = client.getLock("counter-lock");
                        lock.lock();
                        counter.set(counter.get() + 1);
                        lock.unlock();
                    }
                }));
            }
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join(Programs.LIMIT_MS);
        }
        Object count = clients[0].getBucket("counter").get();
        Programs.require(Integer.valueOf(80).equals(count), "80 increments under the lock made " + count);
    }

    private static void acquiredAfterItsHolderWasKilled(RedissonClient one) throws Exception {
        String java = ProcessHandle.current().info().command().orElseThrow();
        String path = System.getProperty("java.class.path");
        Process holder = new ProcessBuilder(java, "-cp", path, "CheckRedisson", "hold").inheritIO().start();
        RLock lock = one.getLock("killed");
        Programs.until("the lock is held", lock::isLocked);
        holder.destroyForcibly().waitFor();
        Programs.require(lock.tryLock(LIMIT_S, TimeUnit.SECONDS), "the lock of a killed holder was not acquired");
        lock.unlock();
    }

    private static void otherLocks(RedissonClient one, RedissonClient two) throws Exception {
        RLock read = one.getReadWriteLock("shared").readLock();
        RLock write = two.getReadWriteLock("shared").writeLock();
        read.lock();
        Programs.require(two.getReadWriteLock("shared").readLock().tryLock() && !write.tryLock(), "a wrong shared lock");
        two.getReadWriteLock("shared").readLock().unlock();
        read.unlock();
        Programs.require(write.tryLock() && !read.tryLock(), "a wrong exclusive lock");
        write.unlock();
        RSemaphore semaphore = one.getSemaphore("semaphore");
        semaphore.trySetPermits(1);
        Programs.require(semaphore.tryAcquire() && !two.getSemaphore("semaphore").tryAcquire(), "a wrong semaphore");
        semaphore.release();
        Programs.require(two.getSemaphore("semaphore").tryAcquire(), "the permit was not acquired again");
    }

    private static void maps(RedissonClient one, RedissonClient two) throws Exception {
        RMap<String, Integer> map = one.getMap("map");
        Programs.require(map.put("a", 1) == null && map.put("a", 2) == 1 && map.putIfAbsent("a", 3) == 2, "a wrong earlier value");
        Programs.require(map.replace("a", 2, 4) && map.remove("a") == 4, "a wrong value");
        Programs.require(one.<String, Integer>getMap("sums", IntegerCodec.INSTANCE).addAndGet("a", 5) == 5, "a wrong sum");
        map.putAll(Map.of("x", 1, "y", 2));
        Programs.require(two.<String, Integer>getMap("map").readAllMap().equals(Map.of("x", 1, "y", 2)), "a wrong map");

        RMapCache<String, Integer> expiring = one.getMapCache("expiring");
        expiring.put("short", 1, 300, TimeUnit.MILLISECONDS);
        expiring.put("long", 2, 1, TimeUnit.HOURS);
        Programs.require(expiring.get("short") == 1, "an entry is expired early");
        Programs.until("an entry is expired", () -> expiring.get("short") == null);
        Programs.require(expiring.get("long") == 2, "an entry is lost");

        RLocalCachedMap<String, Integer> first = one.getLocalCachedMap("cached", LocalCachedMapOptions.defaults());
        RLocalCachedMap<String, Integer> second = two.getLocalCachedMap("cached", LocalCachedMapOptions.defaults());
        first.put("a", 1);
        Programs.require(second.get("a") == 1 && second.cachedKeySet().contains("a"), "the entry is not cached");
        first.put("a", 2);
        Programs.until("a change is seen", () -> second.get("a") == 2);
    }
}
