import java.util.concurrent.Callable;

/** Parts of the checks of Java programs: the server, and a wait with a limit. */
final class Programs {
    static final int PORT = Integer.parseInt(System.getenv("PORT"));
    /** Separates a program that hangs from a slow machine. */
    static final long LIMIT_MS = 60_000;

    private Programs() {}

    /** Ends the process when a thread fails: the threads of a client would keep it. */
    static void endOnFailure() {
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            System.exit(1);
        });
    }

    /** Evaluates {@code condition} until it holds. */
    static void until(String what, Callable<Boolean> condition) throws Exception {
        long limit = System.nanoTime() + LIMIT_MS * 1_000_000;
        while (!condition.call()) {
            require(System.nanoTime() < limit, "not within " + LIMIT_MS + " ms: " + what);
            Thread.sleep(20);
        }
    }

    static void require(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }
}
