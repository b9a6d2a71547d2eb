import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;

/** Arguments: a CSV file of events, a file of SQL. */
public class FlinkSqlPeer {
    static final String TABLE = "CREATE TABLE action (account STRING, kind STRING, amount DOUBLE, ms BIGINT, "
            + "ts AS CAST(TO_TIMESTAMP_LTZ(ms, 3) AS TIMESTAMP(3)), "
            + "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) "
            + "WITH ('connector' = 'filesystem', 'path' = '%s', 'format' = 'csv', 'csv.null-literal' = '')";

    public static void main(String[] args) throws Exception {
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        tables.getConfig().set("parallelism.default", "1");
        tables.getConfig().set("table.local-time-zone", "UTC");
        tables.executeSql(String.format(TABLE, args[0]));
        tables.executeSql(Files.readString(Path.of(args[1]))).collect().forEachRemaining(FlinkSqlPeer::show);
    }

    static void show(Row row) {
        String cells = IntStream.range(0, row.getArity())
                .mapToObj(row::getField)
                .map(cell -> cell instanceof LocalDateTime time ? time.toLocalTime().toString() : String.valueOf(cell))
                .collect(Collectors.joining(" "));
        System.out.println("row " + cells);
    }
}
