import io.trino.testing.LocalQueryRunner;
import io.trino.testing.MaterializedRow;
import io.trino.testing.TestingSession;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Collectors;

/** Arguments: a CSV file of events, a file of SQL. */
public class TrinoPeer {
    public static void main(String[] args) throws Exception {
        String values = Files.readAllLines(Path.of(args[0])).stream().map(TrinoPeer::row).collect(Collectors.joining(", "));
        String action = "WITH action (account, kind, amount, ts) AS (VALUES " + values + ") ";
        LocalQueryRunner trino = LocalQueryRunner.create(TestingSession.testSessionBuilder().build());
        for (MaterializedRow row : trino.execute(action + Files.readString(Path.of(args[1]))).getMaterializedRows()) {
            System.out.println("row " + row.getFields().stream().map(TrinoPeer::show).collect(Collectors.joining(" ")));
        }
        System.exit(0);
    }

    static String row(String line) {
        String[] cells = line.split(",", -1);
        String amount = cells[2].isEmpty() ? "CAST(NULL AS DOUBLE)" : "DOUBLE '" + cells[2] + "'";
        long seconds = Long.parseLong(cells[3]) / 1000;
        String ts = "TIMESTAMP '1970-01-01 00:00:00' + INTERVAL '" + seconds + "' SECOND";
        return "('" + cells[0] + "', '" + cells[1] + "', " + amount + ", " + ts + ")";
    }

    static String show(Object cell) {
        return String.valueOf(cell).replaceFirst("1970-01-01 (\\d\\d:\\d\\d).*", "$1");
    }
}
