import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.management.OperatingSystemMXBean;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * What BookKeeper's own client reaches, measured beside the Python client: requests are read from standard input, one
 * JSON object a line, and each is answered with one line of figures. The client's own limit of adds a second
 * (throttle) is off.
 *
 * <p>Arguments: the metadata service URI, then settings of the client as name=value.
 */
public final class BookKeeperBench {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final byte[] PASSWORD = new byte[0];
    private static final int POLL_MS = 1000;

    private final BookKeeper client;

    private BookKeeperBench(BookKeeper client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setMetadataServiceUri(arguments[0]);
        configuration.setThrottleValue(0);
        for (int i = 1; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            configuration.setProperty(setting[0], setting[1]);
        }
        BookKeeperBench bench = new BookKeeperBench(BookKeeper.newBuilder(configuration).build());
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer;
            try {
                answer = bench.run(JSON.readTree(line));
            } catch (Exception failure) {
                answer = JSON.createObjectNode();
                answer.put("error", failure.getClass().getSimpleName());
                answer.put("message", String.valueOf(failure.getMessage()));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        System.exit(0);
    }

    private ObjectNode run(JsonNode request) throws Exception {
        switch (request.get("op").asText()) {
            case "write":
                return write(request);
            case "read":
                return read(request);
            case "tail":
                return tail(request);
            default:
                throw new IllegalArgumentException("unknown operation " + request.get("op"));
        }
    }

    private WriteHandle create(JsonNode request) throws Exception {
        return client.newCreateLedgerOp()
                .withEnsembleSize(request.get("ensemble_size").asInt())
                .withWriteQuorumSize(request.get("write_quorum").asInt())
                .withAckQuorumSize(request.get("ack_quorum").asInt())
                .withDigestType(DigestType.valueOf(request.get("digest").asText()))
                .withPassword(PASSWORD)
                .execute().get();
    }

    /** Keeps `in_flight` appends of `entry_bytes` going for `seconds`, and tells rate, latencies and processor time. */
    private ObjectNode write(JsonNode request) throws Exception {
        int inFlight = request.get("in_flight").asInt();
        double seconds = request.get("seconds").asDouble();
        byte[] data = new byte[request.get("entry_bytes").asInt()];
        Arrays.fill(data, (byte) 'x');
        Semaphore room = new Semaphore(inFlight);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Latencies latencies = new Latencies();
        try (WriteHandle handle = create(request)) {
            long cpu = SYSTEM.getProcessCpuTime();
            long began = System.nanoTime();
            long until = began + (long) (seconds * 1e9);
            int count = 0;
            while (System.nanoTime() < until && failure.get() == null) {
                room.acquire();
                long sent = System.nanoTime();
                ByteBuf entry = Unpooled.wrappedBuffer(data);
                handle.appendAsync(entry).whenComplete((id, error) -> {
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    } else {
                        latencies.add(System.nanoTime() - sent);
                    }
                    room.release();
                });
                count++;
            }
            room.acquire(inFlight);
            if (failure.get() != null) {
                throw new IllegalStateException("an append failed", failure.get());
            }
            ObjectNode told = figures(count, data.length, System.nanoTime() - began, SYSTEM.getProcessCpuTime() - cpu);
            latencies.tell(told);
            told.put("ledger_id", handle.getId());
            return told;
        }
    }

    /** Reads entries 0 to `last_entry_id`, `batch` at a time with the next batch asked for while one is taken. */
    private ObjectNode read(JsonNode request) throws Exception {
        long last = request.get("last_entry_id").asLong();
        int batch = request.get("batch").asInt();
        int ahead = request.path("batches_ahead").asInt(2);
        try (ReadHandle handle = open(request)) {
            long cpu = SYSTEM.getProcessCpuTime();
            long began = System.nanoTime();
            ArrayDeque<CompletableFuture<LedgerEntries>> waiting = new ArrayDeque<>();
            long next = 0;
            long count = 0;
            long bytes = 0;
            while (next <= last || !waiting.isEmpty()) {
                while (next <= last && waiting.size() < ahead) {
                    long to = Math.min(next + batch - 1, last);
                    waiting.add(handle.readAsync(next, to));
                    next = to + 1;
                }
                try (LedgerEntries entries = waiting.remove().get()) {
                    for (LedgerEntry entry : entries) {
                        bytes += entry.getEntryBytes().length;
                        count++;
                    }
                }
            }
            long took = System.nanoTime() - began;
            return figures(count, count == 0 ? 0 : bytes / count, took, SYSTEM.getProcessCpuTime() - cpu);
        }
    }

    /**
     * One thread appends `entries` entries, `interval_us` apart and at most `in_flight` of them unconfirmed; another
     * follows: from append to seen, by long polls at all bookies (at one, they often last their whole time).
     */
    private ObjectNode tail(JsonNode request) throws Exception {
        int count = request.get("entries").asInt();
        long interval = request.get("interval_us").asLong() * 1000;
        byte[] data = new byte[request.get("entry_bytes").asInt()];
        Semaphore room = new Semaphore(request.get("in_flight").asInt());
        long[] sent = new long[count];
        Latencies latencies = new Latencies();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        try (WriteHandle handle = create(request)) {
            ObjectNode opening = JSON.createObjectNode().put("ledger_id", handle.getId())
                    .put("digest", request.get("digest").asText());
            long cpu = SYSTEM.getProcessCpuTime();
            long began = System.nanoTime();
            Thread writer = new Thread(() -> {
                long due = System.nanoTime();
                for (int i = 0; i < count && failure.get() == null; i++) {
                    while (System.nanoTime() < due) {
                        LockSupport.parkNanos(due - System.nanoTime());
                    }
                    due += interval;
                    room.acquireUninterruptibly();
                    sent[i] = System.nanoTime();
                    handle.appendAsync(Unpooled.wrappedBuffer(data)).whenComplete((id, error) -> {
                        if (error != null) {
                            failure.compareAndSet(null, error);
                        }
                        room.release();
                    });
                }
            });
            writer.start();
            try (ReadHandle follower = open(opening)) {
                long next = 0;
                while (next < count && failure.get() == null) {
                    long seen = next;
                    try (LastConfirmedAndEntry found =
                            follower.readLastAddConfirmedAndEntryAsync(next, POLL_MS, true).get()) {
                        if (found.hasEntry()) {
                            seen = next + 1;
                            latencies.add(System.nanoTime() - sent[(int) next]);
                        }
                        next = seen;
                        if (found.getLastAddConfirmed() >= next) {
                            try (LedgerEntries entries = follower.readAsync(next, found.getLastAddConfirmed()).get()) {
                                long now = System.nanoTime();
                                for (LedgerEntry entry : entries) {
                                    latencies.add(now - sent[(int) entry.getEntryId()]);
                                    next = entry.getEntryId() + 1;
                                }
                            }
                        }
                    }
                }
            }
            writer.join();
            if (failure.get() != null) {
                throw new IllegalStateException("an append failed", failure.get());
            }
            ObjectNode told = figures(count, data.length, System.nanoTime() - began, SYSTEM.getProcessCpuTime() - cpu);
            latencies.tell(told);
            told.put("ledger_id", handle.getId());
            return told;
        }
    }

    private ReadHandle open(JsonNode request) throws Exception {
        return client.newOpenLedgerOp()
                .withLedgerId(request.get("ledger_id").asLong())
                .withDigestType(DigestType.valueOf(request.get("digest").asText()))
                .withPassword(PASSWORD)
                .withRecovery(false)
                .execute().get();
    }

    private static ObjectNode figures(long entries, long entryBytes, long tookNs, long cpuNs) {
        ObjectNode told = JSON.createObjectNode();
        told.put("entries", entries);
        told.put("seconds", tookNs / 1e9);
        told.put("entries_per_s", entries / (tookNs / 1e9));
        told.put("megabytes_per_s", entries * entryBytes / (tookNs / 1e3));
        told.put("cpu_us_per_entry", entries == 0 ? 0 : cpuNs / 1e3 / entries);
        return told;
    }

    /** How long things took, in nanoseconds. */
    private static final class Latencies {
        private long[] values = new long[1 << 16];
        private int count;

        synchronized void add(long value) {
            if (count == values.length) {
                values = Arrays.copyOf(values, count * 2);
            }
            values[count++] = value;
        }

        synchronized void tell(ObjectNode told) {
            long[] sorted = Arrays.copyOf(values, count);
            Arrays.sort(sorted);
            told.put("p50_ms", at(sorted, 0.5));
            told.put("p99_ms", at(sorted, 0.99));
            told.put("max_ms", at(sorted, 1.0));
        }

        private static double at(long[] sorted, double part) {
            return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, part * sorted.length)] / 1e6;
        }
    }
}
