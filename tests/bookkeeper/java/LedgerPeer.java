import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.bookkeeper.client.api.BKException;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.CreateBuilder;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.client.api.ListLedgersResult;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * BookKeeper's own client, driven by tests: reads requests from standard input, one JSON object a line, and answers
 * each with one line. Entries and passwords travel in base64. Handles stay open until they are closed by a request:
 * when the program ends, ledgers that were not closed stay open.
 *
 * <p>Arguments: the metadata service URI, then settings of the client as name=value.
 */
public final class LedgerPeer {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final BookKeeper client;
    private final Map<Long, WriteHandle> writers = new HashMap<>();
    private final Map<Long, ReadHandle> readers = new HashMap<>();

    private LedgerPeer(BookKeeper client) {
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
        LedgerPeer peer = new LedgerPeer(BookKeeper.newBuilder(configuration).build());
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(peer.answer(JSON.readTree(line))));
            answers.flush();
        }
        System.exit(0); // closing the client in order takes two seconds
    }

    private ObjectNode answer(JsonNode request) {
        try {
            return handle(request);
        } catch (Exception failure) {
            Throwable cause = failure;
            while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null) {
                cause = cause.getCause();
            }
            ObjectNode told = JSON.createObjectNode();
            told.put("error", cause.getClass().getSimpleName());
            told.put("message", String.valueOf(cause.getMessage()));
            if (cause instanceof BKException) {
                told.put("code", ((BKException) cause).getCode());
            }
            return told;
        }
    }

    private ObjectNode handle(JsonNode request) throws Exception {
        String operation = request.get("op").asText();
        switch (operation) {
            case "create":
                return create(request);
            case "append":
                return append(request);
            case "force":
                writer(request).force().get();
                return lastAddConfirmed(writer(request).getLastAddConfirmed());
            case "close":
                writer(request).close();
                return lastAddConfirmed(writers.remove(ledger(request)).getLastAddConfirmed());
            case "open":
                return open(request);
            case "read":
                return entries(reader(request).readAsync(request.get("first").asLong(), request.get("last").asLong()).get());
            case "read_unconfirmed":
                return entries(reader(request).readUnconfirmed(request.get("first").asLong(), request.get("last").asLong()));
            case "read_lac":
                return lastAddConfirmed(reader(request).readLastAddConfirmedAsync().get());
            case "wait_entry":
                return waitEntry(request);
            case "metadata":
                return metadata(client.getLedgerMetadata(ledger(request)).get());
            case "delete":
                client.newDeleteLedgerOp().withLedgerId(ledger(request)).execute().get();
                return JSON.createObjectNode();
            case "list":
                return list();
            default:
                throw new IllegalArgumentException("unknown operation " + operation);
        }
    }

    private ObjectNode create(JsonNode request) throws Exception {
        Map<String, byte[]> custom = new HashMap<>();
        if (request.has("custom_metadata")) {
            request.get("custom_metadata").fields()
                    .forEachRemaining(field -> custom.put(field.getKey(), bytes(field.getValue())));
        }
        CreateBuilder builder = client.newCreateLedgerOp()
                .withEnsembleSize(request.get("ensemble_size").asInt())
                .withWriteQuorumSize(request.get("write_quorum").asInt())
                .withAckQuorumSize(request.get("ack_quorum").asInt())
                .withDigestType(digest(request))
                .withPassword(bytes(request.get("password")))
                .withCustomMetadata(custom);
        if (request.path("deferred_sync").asBoolean(false)) {
            builder = builder.withWriteFlags(WriteFlag.DEFERRED_SYNC);
        }
        WriteHandle handle = builder.execute().get();
        writers.put(handle.getId(), handle);
        ObjectNode told = JSON.createObjectNode();
        told.put("ledger_id", handle.getId());
        return told;
    }

    /** Appends all entries at once and answers when the last of them is acknowledged. */
    private ObjectNode append(JsonNode request) throws Exception {
        WriteHandle handle = writer(request);
        List<CompletableFuture<Long>> pending = new ArrayList<>();
        for (JsonNode entry : request.get("entries")) {
            pending.add(handle.appendAsync(bytes(entry)));
        }
        ArrayNode ids = JSON.createArrayNode();
        for (CompletableFuture<Long> one : pending) {
            ids.add(one.get());
        }
        ObjectNode told = lastAddConfirmed(handle.getLastAddConfirmed());
        told.set("entry_ids", ids);
        return told;
    }

    private ObjectNode open(JsonNode request) throws Exception {
        ReadHandle handle = client.newOpenLedgerOp()
                .withLedgerId(ledger(request))
                .withDigestType(digest(request))
                .withPassword(bytes(request.get("password")))
                .withRecovery(request.get("recover").asBoolean())
                .execute().get();
        ReadHandle before = readers.put(handle.getId(), handle);
        if (before != null) {
            before.close();
        }
        ObjectNode told = lastAddConfirmed(handle.getLastAddConfirmed());
        told.put("length_bytes", handle.getLength());
        told.put("is_closed", handle.isClosed());
        return told;
    }

    /** Waits for an entry to be confirmed, by long poll. */
    private ObjectNode waitEntry(JsonNode request) throws Exception {
        long id = request.get("entry_id").asLong();
        try (LastConfirmedAndEntry found = reader(request)
                .readLastAddConfirmedAndEntryAsync(id, request.get("timeout_ms").asLong(), false).get()) {
            ObjectNode told = lastAddConfirmed(found.getLastAddConfirmed());
            if (found.hasEntry()) {
                told.put("entry", base64(found.getEntry().getEntryBytes()));
            }
            return told;
        }
    }

    private ObjectNode entries(LedgerEntries found) {
        try (LedgerEntries held = found) {
            ArrayNode ids = JSON.createArrayNode();
            ArrayNode data = JSON.createArrayNode();
            ArrayNode lengths = JSON.createArrayNode();
            for (LedgerEntry entry : held) {
                ids.add(entry.getEntryId());
                data.add(base64(entry.getEntryBytes()));
                lengths.add(entry.getLength());
            }
            ObjectNode told = JSON.createObjectNode();
            told.set("entry_ids", ids);
            told.set("entries", data);
            told.set("lengths", lengths);
            return told;
        }
    }

    private ObjectNode metadata(LedgerMetadata metadata) {
        ObjectNode told = JSON.createObjectNode();
        told.put("ensemble_size", metadata.getEnsembleSize());
        told.put("write_quorum", metadata.getWriteQuorumSize());
        told.put("ack_quorum", metadata.getAckQuorumSize());
        told.put("state", metadata.getState().name());
        told.put("is_closed", metadata.isClosed());
        told.put("last_entry_id", metadata.getLastEntryId());
        told.put("length_bytes", metadata.getLength());
        told.put("digest", metadata.getDigestType().name());
        told.put("ctime_ms", metadata.getCtime());
        told.put("format_version", metadata.getMetadataFormatVersion());
        ObjectNode custom = told.putObject("custom_metadata");
        metadata.getCustomMetadata().forEach((name, value) -> custom.put(name, base64(value)));
        ArrayNode segments = told.putArray("segments");
        metadata.getAllEnsembles().forEach((first, members) -> {
            ObjectNode segment = segments.addObject();
            segment.put("first_entry_id", first);
            ArrayNode ids = segment.putArray("members");
            members.forEach(member -> ids.add(member.toString()));
        });
        return told;
    }

    private ObjectNode list() throws Exception {
        ObjectNode told = JSON.createObjectNode();
        ArrayNode ids = told.putArray("ledger_ids");
        try (ListLedgersResult found = client.newListLedgersOp().execute().get()) {
            found.toIterable().forEach(ids::add);
        }
        return told;
    }

    private WriteHandle writer(JsonNode request) {
        WriteHandle handle = writers.get(ledger(request));
        if (handle == null) {
            throw new IllegalArgumentException("ledger " + ledger(request) + " is not written here");
        }
        return handle;
    }

    private ReadHandle reader(JsonNode request) {
        ReadHandle handle = readers.get(ledger(request));
        if (handle == null) {
            throw new IllegalArgumentException("ledger " + ledger(request) + " was not opened");
        }
        return handle;
    }

    private static long ledger(JsonNode request) {
        return request.get("ledger_id").asLong();
    }

    private static DigestType digest(JsonNode request) {
        return DigestType.valueOf(request.get("digest").asText());
    }

    private static byte[] bytes(JsonNode text) {
        return Base64.getDecoder().decode(text.asText());
    }

    private static String base64(byte[] data) {
        return Base64.getEncoder().encodeToString(data);
    }

    private static ObjectNode lastAddConfirmed(long id) {
        ObjectNode told = JSON.createObjectNode();
        told.put("last_add_confirmed", id);
        return told;
    }
}
