// What an application in Java does, for as many connections and requests as it is told.
//
// Arguments: the driver's prefix of addresses, connections, requests on each. A request reads a row,
// and changes it in a transaction, as a pool of connections hands them out: autocommit is turned off
// and on again. Connections are opened one after the other.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;

public final class SetUp {
    private static final String READ = "SELECT v FROM item WHERE id = ?";
    private static final String CHANGE = "UPDATE item SET v = v + 1 WHERE id = ?";

    public static void main(String[] arguments) throws SQLException {
        var host = System.getenv("SUITE_HOST") + ":" + System.getenv("SUITE_PORT");
        var address = arguments[0] + "://" + host + "/application";
        var user = System.getenv("SUITE_USER");
        var password = System.getenv("SUITE_PASSWORD");
        for (var i = 0; i < Integer.parseInt(arguments[1]); i++) {
            try (var connection = DriverManager.getConnection(address, user, password)) {
                for (var j = 0; j < Integer.parseInt(arguments[2]); j++) {
                    request(connection);
                }
            }
        }
    }

    private static void request(Connection connection) throws SQLException {
        read(connection);
        connection.setAutoCommit(false);
        read(connection);
        try (var statement = connection.prepareStatement(CHANGE)) {
            statement.setInt(1, 1);
            statement.executeUpdate();
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    private static void read(Connection connection) throws SQLException {
        try (var statement = connection.prepareStatement(READ)) {
            statement.setInt(1, 1);
            try (var rows = statement.executeQuery()) {
                if (!rows.next()) throw new IllegalStateException("the row is not there");
            }
        }
    }
}
