import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalTime;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.PatternSelectFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Arguments: a CSV file of events, the number of a pattern. `//` lines are filled in from the page. */
public class FlinkCepPeer {
    public static class Action implements Serializable {
        public String account;
        public String kind;
        public Double amount;
        public long ts;

        static Action of(String line) {
            String[] cells = line.split(",", -1);
            Action action = new Action();
            action.account = cells[0];
            action.kind = cells[1];
            action.amount = cells[2].isEmpty() ? null : Double.valueOf(cells[2]);
            action.ts = Long.parseLong(cells[3]);
            return action;
        }

        String at() {
            return LocalTime.ofSecondOfDay(ts / 1000).toString();
        }
    }

    //HELPERS

    static Pattern<Action, ?> pattern(int number) {
        switch (number) {
            //PATTERNS
            default:
                throw new IllegalArgumentException("no pattern " + number);
        }
    }

    static String row(int number, Map<String, List<Action>> m) {
        switch (number) {
            case 1: case 5:
                return join(m.get("o").get(0).account, m.get("o").get(0).at(), m.get("p").get(0).at());
            case 2:
                return join(m.get("a").get(0).account, m.get("a").get(0).amount, m.get("b").get(0).amount);
            case 3:
                return join(m.get("o").get(0).account, m.get("o").get(0).at());
            case 4:
                return join(m.get("l").get(0).account, m.get("f").size(), m.get("l").get(0).at());
            default:
                return join(m.get("a").get(0).account, m.get("a").get(0).at(), m.get("b").get(0).at());
        }
    }

    static String join(Object... cells) {
        return String.join(" ", java.util.Arrays.stream(cells).map(String::valueOf).toList());
    }

    public static void main(String[] args) throws Exception {
        int number = Integer.parseInt(args[1]);
        List<Action> events = Files.readAllLines(Path.of(args[0])).stream().map(Action::of).toList();
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(1);
        var actions = env.fromData(events).assignTimestampsAndWatermarks(
                WatermarkStrategy.<Action>forMonotonousTimestamps().withTimestampAssigner((a, old) -> a.ts));
        CEP.pattern(actions.keyBy(a -> a.account), pattern(number))
                .select(new PatternSelectFunction<Action, String>() {
                    @Override
                    public String select(Map<String, List<Action>> match) {
                        return row(number, match);
                    }
                })
                .executeAndCollect()
                .forEachRemaining(row -> System.out.println("row " + row));
    }
}
