import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import java.io.StringReader;
import java.io.StringWriter;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PGInterval;

/** What Java programs do through pgjdbc, step by step; a line for each thing found, which the test compares. */
public final class PgJdbc {
    private static void say(String what, Object found) {
        System.out.println(what + " = " + found);
    }

    private static String rows(ResultSet found, String... columns) throws SQLException {
        List<String> lines = new ArrayList<>();
        while (found.next()) {
            List<String> line = new ArrayList<>();
            for (String column : columns) {
                line.add(String.valueOf(found.getString(column)));
            }
            lines.add(String.join(",", line));
        }
        found.close();
        return String.join(" ", lines);
    }

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        given.setProperty("user", "herdpy");
        for (int i = 1; i < arguments.length; i++) {
            int at = arguments[i].indexOf('=');
            given.setProperty(arguments[i].substring(0, at), arguments[i].substring(at + 1));
        }
        try (Connection connection = DriverManager.getConnection(arguments[0], given)) {
            definitions(connection);
            prepared(connection);
            batches(connection);
            transactions(connection);
            cursors(connection);
            copies(connection);
            metadata(connection.getMetaData());
            types(connection);
            notifications(connection);
        }
        System.out.println("end");
    }

    private static void notifications(Connection connection) throws SQLException {
        PGConnection listening = connection.unwrap(PGConnection.class);
        try (Statement statement = connection.createStatement()) {
            statement.execute("LISTEN news");
            statement.execute("NOTIFY news, 'own'");
            statement.execute("SELECT pg_notify('news', '')");
            statement.execute("NOTIFY other");
        }
        for (PGNotification one : listening.getNotifications()) {
            boolean own = one.getPID() == listening.getBackendPID();
            say("notification", one.getName() + "," + one.getParameter() + "," + own);
        }
        say("more notifications", listening.getNotifications(1).length);
    }

    private static void definitions(Connection connection) throws SQLException {
        say("valid", connection.isValid(5));
        say("product", connection.getMetaData().getDatabaseProductName());
        say("major", connection.getMetaData().getDatabaseMajorVersion());
        say("schema", connection.getSchema());
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS book");
            statement.execute("DROP TABLE IF EXISTS author");
            statement.execute("CREATE TABLE author (id int PRIMARY KEY, name varchar(40) NOT NULL)");
            statement.execute(
                "CREATE TABLE book (author int, number int, title text NOT NULL, price numeric(8,2) DEFAULT 1.50, "
                + "sold bigint, weight double precision, cover bytea, printed date, changed timestamptz, "
                + "code uuid, rare boolean, PRIMARY KEY (author, number))");
            statement.execute("CREATE INDEX book_title ON book (title)");
        }
    }

    private static void prepared(Connection connection) throws SQLException {
        String insert = "INSERT INTO book VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int i = 1; i <= 12; i++) {  // past prepareThreshold: named on the server, binary transfer
                statement.setInt(1, 1);
                statement.setInt(2, i);
                statement.setString(3, "Größe " + i + " '\\");
                statement.setBigDecimal(4, new java.math.BigDecimal("12.50"));
                statement.setLong(5, (1L << 40) + i);
                statement.setDouble(6, 0.1 * i);
                statement.setBytes(7, new byte[] {0, (byte) i, (byte) 255});
                statement.setObject(8, java.time.LocalDate.of(2026, 2, i));
                statement.setObject(9, java.time.OffsetDateTime.parse("2026-02-28T01:02:03.000004Z"));
                statement.setObject(10, new java.util.UUID(7, i));
                if (i % 2 == 0) {
                    statement.setNull(11, java.sql.Types.BOOLEAN);
                } else {
                    statement.setBoolean(11, true);
                }
                say("inserted", statement.executeUpdate());
            }
        }
        String select = "SELECT * FROM book WHERE author = ? AND number = ?";
        try (PreparedStatement statement = connection.prepareStatement(select)) {
            ResultSetMetaData columns = statement.getMetaData();
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                say("column", columns.getColumnName(i) + " " + columns.getColumnTypeName(i) + " "
                    + columns.getColumnType(i) + " " + columns.getPrecision(i) + " " + columns.getScale(i) + " "
                    + columns.getColumnLabel(i) + " " + columns.isSigned(i) + " " + columns.getColumnClassName(i));
            }
            say("parameter", statement.getParameterMetaData().getParameterTypeName(1));
            for (int i = 1; i <= 8; i++) {
                statement.setInt(1, 1);
                statement.setInt(2, i);
                try (ResultSet found = statement.executeQuery()) {
                    found.next();
                    say("book", found.getInt("number") + " " + found.getString("title") + " "
                        + found.getBigDecimal("price") + " " + found.getLong("sold") + " "
                        + found.getDouble("weight") + " " + java.util.Arrays.toString(found.getBytes("cover")) + " "
                        + found.getObject("printed", java.time.LocalDate.class) + " "
                        + found.getObject("changed", java.time.OffsetDateTime.class) + " "
                        + found.getObject("code") + " " + found.getObject("rare"));
                }
            }
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT count(*) FROM book WHERE title = ?")) {
            statement.setString(1, "nothing");
            say("counted", rows(statement.executeQuery(), "count"));
        }
        String returning = "INSERT INTO book (author, number, title) VALUES (2, 1, 'r')";
        try (PreparedStatement statement = connection.prepareStatement(returning, new String[] {"number", "price"})) {
            statement.executeUpdate();
            say("returned", rows(statement.getGeneratedKeys(), "number", "price"));
        }
    }

    private static void batches(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO author VALUES (?, ?)")) {
            for (int i = 0; i < 500; i++) {
                statement.setInt(1, i);
                statement.setString(2, "author " + i);
                statement.addBatch();
            }
            int sum = 0;
            for (int count : statement.executeBatch()) {
                sum += count == Statement.SUCCESS_NO_INFO ? 1 : count;
            }
            say("batch", sum);
            statement.setInt(1, 1000);
            statement.setString(2, "new");
            statement.addBatch();
            statement.setInt(1, 7);
            statement.setString(2, "twice");
            statement.addBatch();
            try {
                statement.executeBatch();
                say("batch", "no error");
            } catch (java.sql.BatchUpdateException error) {
                say("batch failed", error.getSQLState());
            }
        }
        try (Statement statement = connection.createStatement()) {
            statement.addBatch("UPDATE author SET name = 'one' WHERE id = 1");
            statement.addBatch("DELETE FROM author WHERE id >= 490");
            say("statements", java.util.Arrays.toString(statement.executeBatch()));
            say("authors", rows(statement.executeQuery("SELECT count(*) AS n FROM author"), "n"));
            statement.execute("SELECT 1 AS a; SELECT 2 AS b");
            String first = rows(statement.getResultSet(), "a");
            say("two results", first + " " + statement.getMoreResults() + " " + rows(statement.getResultSet(), "b"));
        }
    }

    private static void transactions(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("UPDATE author SET name = 'gone' WHERE id = 2");
            java.sql.Savepoint point = connection.setSavepoint();
            try {
                statement.executeUpdate("INSERT INTO author VALUES (2, 'twice')");
            } catch (SQLException error) {
                say("duplicate", error.getSQLState() + " " + error.getMessage().replace('\n', ' '));
            }
            connection.rollback(point);
            say("within", rows(statement.executeQuery("SELECT name FROM author WHERE id = 2"), "name"));
            connection.rollback();
            say("after", rows(statement.executeQuery("SELECT name FROM author WHERE id = 2"), "name"));
            connection.commit();
        }
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        say("isolation", connection.getTransactionIsolation() == Connection.TRANSACTION_READ_COMMITTED);
        connection.commit();
        connection.setReadOnly(true);
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("DELETE FROM author");
            say("read only", "no error");
        } catch (SQLException error) {
            say("read only", error.getSQLState());
        }
        connection.rollback();
        connection.setReadOnly(false);
        connection.setAutoCommit(true);
    }

    private static void cursors(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement("SELECT id FROM author WHERE id >= ? ORDER BY id")) {
            statement.setFetchSize(33);
            statement.setInt(1, 10);
            long sum = 0;
            try (ResultSet found = statement.executeQuery()) {
                while (found.next()) {
                    sum += found.getInt(1);
                }
            }
            say("fetched", sum);
            statement.setMaxRows(3);
            say("limited", rows(statement.executeQuery(), "id"));
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    private static void copies(Connection connection) throws Exception {
        CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
        say("copied", copies.copyIn("COPY author FROM STDIN (FORMAT csv)", new StringReader("2000,\"a, b\"\n2001,c\n")));
        StringWriter out = new StringWriter();
        copies.copyOut("COPY (SELECT * FROM author WHERE id >= 2000 ORDER BY id) TO STDOUT", out);
        say("copied out", out.toString().replace('\n', ' ').replace('\t', '|'));
    }

    private static void metadata(DatabaseMetaData found) throws SQLException {
        String[] tables = {"TABLE"};
        say("schemas", rows(found.getSchemas(null, "publ%"), "TABLE_SCHEM"));
        say("tables", rows(found.getTables(null, "public", "%o%", tables), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"));
        say("columns", rows(found.getColumns(null, "public", "book", "%"), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME",
            "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE", "COLUMN_DEF", "ORDINAL_POSITION", "IS_AUTOINCREMENT"));
        say("keys", rows(found.getPrimaryKeys(null, "public", "book"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
        say("indexes", rows(found.getIndexInfo(null, "public", "book", false, true), "INDEX_NAME", "NON_UNIQUE",
            "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC", "TYPE"));
        say("unique", rows(found.getIndexInfo(null, "public", "author", true, true), "INDEX_NAME", "COLUMN_NAME"));
        say("imported", rows(found.getImportedKeys(null, "public", "book"), "PKTABLE_NAME"));
        say("exported", rows(found.getExportedKeys(null, "public", "author"), "FKTABLE_NAME"));
        say("best row", rows(found.getBestRowIdentifier(null, "public", "book", 1, true), "COLUMN_NAME", "TYPE_NAME"));
        say("procedures", rows(found.getProcedures(null, "public", "%"), "PROCEDURE_NAME"));
        say("views", rows(found.getTables(null, "public", "%", new String[] {"VIEW"}), "TABLE_NAME"));
        ResultSet types = found.getTypeInfo();
        List<String> names = new ArrayList<>();
        while (types.next()) {
            names.add(types.getString("TYPE_NAME"));
        }
        say("types", names.containsAll(List.of("int4", "int8", "text", "numeric", "uuid", "timestamptz", "bytea")));
        say("privileges", found.getTablePrivileges(null, "public", "book").next());
    }

    private static void types(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS typed");
            statement.execute("DROP TYPE IF EXISTS mood");
            statement.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')");
            statement.execute("CREATE TABLE typed (id int PRIMARY KEY, m mood, tags text[], nums int[], meta jsonb, "
                + "span interval)");
        }
        try (PreparedStatement insert = connection.prepareStatement(
                "INSERT INTO typed VALUES (?, ?::mood, ?, ?, ?::jsonb, ?)")) {
            insert.setInt(1, 1);
            insert.setString(2, "ok");
            insert.setArray(3, connection.createArrayOf("text", new String[] {"a b", null, "\"q"}));
            insert.setArray(4, connection.createArrayOf("int4", new Integer[] {7, null}));
            insert.setString(5, "{\"k\": 1}");
            insert.setObject(6, new PGInterval(0, 1, 2, 3, 4, 5.5));
            say("typed", insert.executeUpdate());
        }
        try (PreparedStatement select = connection.prepareStatement(
                "SELECT m, tags, nums, meta, span FROM typed WHERE m = ? AND 7 = ANY(nums)")) {
            select.setObject(1, "ok", Types.OTHER);
            ResultSet found = select.executeQuery();
            ResultSetMetaData columns = found.getMetaData();
            found.next();
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                say(columns.getColumnName(i), columns.getColumnTypeName(i) + " " + columns.getColumnType(i) + " "
                    + columns.getColumnClassName(i) + " " + found.getObject(i));
            }
            say("elements", Arrays.toString((Object[]) found.getArray(2).getArray())
                + Arrays.toString((Object[]) found.getArray(3).getArray()) + found.getArray(3).getBaseTypeName());
        }
        try (PreparedStatement select = connection.prepareStatement(
                "SELECT ?::date, ?::timestamptz, ?::timestamp, ?::time, ?::uuid")) {
            select.setObject(1, LocalDate.of(2020, 1, 2));
            select.setObject(2, OffsetDateTime.parse("2020-01-02T03:04:05Z"));
            select.setObject(3, LocalDateTime.parse("2020-01-02T03:04:05"));
            select.setObject(4, LocalTime.of(3, 4));
            select.setObject(5, UUID.fromString("12345678-1234-5678-1234-567812345678"));
            say("moments", rows(select.executeQuery(), "date", "timestamptz", "timestamp", "time", "uuid"));
        }
        DatabaseMetaData catalog = connection.getMetaData();
        say("typed columns", rows(catalog.getColumns(null, "public", "typed", "%"), "COLUMN_NAME", "DATA_TYPE",
            "TYPE_NAME", "COLUMN_SIZE"));
        say("user types", rows(catalog.getUDTs(null, "public", "%", new int[] {Types.DISTINCT}), "TYPE_NAME"));
    }
}
