import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Map;
import java.util.Properties;

/**
 * A program with one JDBC connection to one address, driven by a drill: it reads requests from standard input, one JSON
 * object a line, and answers each with one line. A failed request is answered with the SQLSTATE as "error" ("lost"
 * without one), or the exception's name. A connection that was lost is made anew by the next statement that is in no transaction.
 *
 * <p>Argument: the JDBC URL. The first request is "open", with the properties of connections.
 */
public final class OneAddress {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String url;
    private final Properties properties = new Properties();
    private Connection connection;
    private boolean inTransaction;

    private OneAddress(String url) {
        this.url = url;
    }

    public static void main(String[] arguments) throws Exception {
        OneAddress program = new OneAddress(arguments[0]);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                program.answer(JSON.readTree(line), answer);
            } catch (SQLException failure) {
                String state = failure.getSQLState();
                answer.removeAll();
                answer.put("error", state == null || state.isEmpty() ? "lost" : state);
                answer.put("message", failure.getMessage());
            } catch (RuntimeException failure) { // pgjdbc's, of answers that the protocol has not
                StackTraceElement[] trace = failure.getStackTrace();
                answer.removeAll();
                answer.put("error", failure.getClass().getSimpleName());
                answer.put("message", failure.getMessage() + (trace.length > 0 ? " at " + trace[0] : ""));
                program.giveUp();
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    private void answer(JsonNode request, ObjectNode answer) throws SQLException {
        switch (request.get("op").asText()) {
            case "open" -> {
                for (Map.Entry<String, JsonNode> one : request.get("properties").properties()) {
                    properties.setProperty(one.getKey(), one.getValue().asText());
                }
            }
            case "connect" -> connected();
            case "begin" -> begin(request.path("isolation").asText(""));
            case "execute" -> execute(request, answer);
            case "commit" -> end(true);
            default -> end(false);
        }
    }

    private void giveUp() {
        try {
            if (connection != null) {
                connection.close();
            }
        } catch (SQLException alreadyLost) {
            // it is not used any more
        }
        connection = null;
        inTransaction = false;
    }

    private Connection connected() throws SQLException {
        if (connection == null || connection.isClosed()) {
            if (inTransaction) {
                throw new SQLException("the connection was lost, and the transaction with it", "08003");
            }
            connection = DriverManager.getConnection(url, properties);
        }
        return connection;
    }

    private void begin(String isolation) throws SQLException {
        Connection now = connected();
        now.setAutoCommit(false);
        inTransaction = true;
        if (!isolation.isEmpty()) {
            execute(now, "SET TRANSACTION ISOLATION LEVEL " + isolation);
        }
    }

    private static void execute(Connection now, String sql) throws SQLException {
        try (PreparedStatement statement = now.prepareStatement(sql)) {
            statement.execute();
        }
    }

    private void execute(JsonNode request, ObjectNode answer) throws SQLException {
        ArrayNode rows = answer.putArray("rows");
        try (PreparedStatement statement = connected().prepareStatement(request.get("sql").asText())) {
            int place = 0;
            for (JsonNode value : request.get("parameters")) {
                place++;
                if (value.isNull()) {
                    statement.setObject(place, null);
                } else if (value.isIntegralNumber()) {
                    statement.setLong(place, value.asLong());
                } else {
                    statement.setString(place, value.asText());
                }
            }
            if (!statement.execute()) {
                answer.put("count", statement.getUpdateCount());
                return;
            }
            ResultSet found = statement.getResultSet();
            int columns = found.getMetaData().getColumnCount();
            while (found.next()) {
                ArrayNode row = rows.addArray();
                for (int column = 1; column <= columns; column++) {
                    row.addPOJO(found.getObject(column));
                }
            }
            answer.put("count", rows.size());
        }
    }

    private void end(boolean commits) throws SQLException {
        try {
            if (connection == null || connection.isClosed()) {
                if (commits) {
                    throw new SQLException("the connection was lost, and the transaction with it", "08003");
                }
                return;
            }
            if (commits) {
                connection.commit();
            } else {
                connection.rollback();
            }
        } finally {
            inTransaction = false;
            if (connection != null && !connection.isClosed()) {
                connection.setAutoCommit(true);
            }
        }
    }
}
