import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalTime;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Arguments: a CSV file of events, a file of EPL, the columns that come out. Time is that of the events. */
public class EsperPeer {
    static final String SCHEMA =
            "@public @buseventtype create schema Action(account string, kind string, amount double, ts long);\n";

    public static void main(String[] args) throws Exception {
        Configuration configuration = new Configuration();
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        String epl = SCHEMA + Files.readString(Path.of(args[1]));
        EPCompiled compiled = EPCompilerProvider.getCompiler().compile(epl, new CompilerArguments(configuration));
        EPRuntime runtime = EPRuntimeProvider.getRuntime("page", configuration);
        runtime.getEventService().advanceTime(0);
        EPDeployment deployment = runtime.getDeploymentService().deploy(compiled);
        EPStatement[] statements = deployment.getStatements();
        statements[statements.length - 1].addListener((found, gone, statement, engine) -> {
            for (EventBean row : found) {
                String[] columns = args[2].split(",");
                Stream<String> cells = Stream.of(columns).filter(row.getEventType()::isProperty).map(c -> show(row.get(c)));
                System.out.println("row " + cells.collect(Collectors.joining(" ")));
            }
        });
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] cells = line.split(",", -1);
            Map<String, Object> event = new HashMap<>();
            event.put("account", cells[0]);
            event.put("kind", cells[1]);
            event.put("amount", cells[2].isEmpty() ? null : Double.valueOf(cells[2]));
            event.put("ts", Long.valueOf(cells[3]));
            runtime.getEventService().advanceTime(Long.parseLong(cells[3]));
            runtime.getEventService().sendEventMap(event, "Action");
        }
        runtime.getEventService().advanceTime(24 * 3600 * 1000L);
    }

    static String show(Object value) {
        boolean isTime = value instanceof Long number && number >= 60_000;
        return isTime ? LocalTime.ofSecondOfDay((Long) value / 1000).toString() : String.valueOf(value);
    }
}
