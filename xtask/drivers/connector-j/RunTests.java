import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs the tests of MariaDB Connector/J, whose compiled classes lie in the folder that is the argument, and prints TAP.
 *
 * <p>A class is a test if its name ends so. Ends with 0 if all were run, whatever their outcome.
 */
public final class RunTests extends RunListener {
  private final PrintStream out;
  private int count;
  private Failure failure;
  private boolean assumed;

  private RunTests(PrintStream out) {
    this.out = out;
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream out = System.out;
    // What the tests print is no word on them.
    System.setOut(System.err);
    RunTests tap = new RunTests(out);
    JUnitCore core = new JUnitCore();
    core.addListener(tap);
    for (String name : tests(Path.of(arguments[0]))) {
      core.run(Class.forName(name));
    }
    out.println("1.." + tap.count);
    // Some tests leave threads.
    System.exit(0);
  }

  private static List<String> tests(Path classes) throws IOException {
    try (Stream<Path> files = Files.walk(classes)) {
      return files
          .map(it -> classes.relativize(it).toString().replace('/', '.'))
          .filter(it -> it.endsWith("Test.class"))
          .map(it -> it.substring(0, it.length() - ".class".length()))
          .sorted()
          .collect(Collectors.toList());
    }
  }

  @Override
  public void testStarted(Description test) {
    failure = null;
    assumed = false;
  }

  @Override
  public void testFailure(Failure found) {
    failure = found;
    if (found.getDescription().getMethodName() == null) {
      // A class whose set-up fails has started no test.
      report("not ok", found.getDescription(), "");
      failure = null;
    }
  }

  @Override
  public void testAssumptionFailure(Failure found) {
    assumed = true;
    if (found.getDescription().getMethodName() == null) {
      report("ok", found.getDescription(), " # SKIP");
    }
  }

  @Override
  public void testIgnored(Description test) {
    report("ok", test, " # SKIP");
  }

  @Override
  public void testFinished(Description test) {
    if (failure != null) {
      report("not ok", test, "");
    } else {
      report("ok", test, assumed ? " # SKIP" : "");
    }
  }

  private void report(String word, Description test, String directive) {
    count++;
    String name = test.getClassName();
    name = name.substring(name.lastIndexOf('.') + 1);
    if (test.getMethodName() != null) {
      name += "." + test.getMethodName();
    }
    out.println(word + " " + count + " - " + name + directive);
    if (failure != null) {
      failure.getTrace().lines().limit(TRACE_MAX).forEach(it -> out.println("# " + it));
    }
  }

  private static final int TRACE_MAX = 30;
}
