"""Java programs: compiled once, spoken to in lines of JSON, and their failures told."""

import pytest

from herdpy.testing import JavaProgram, JavaProgramError, KitError
from herdpy.testing.java import compiled
from tests.testing_kit.kit_programs import await_end

ECHO = """
import java.io.*;

public class Echo {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.contains("fail")) {
                String told = "{'error': 'Broken', 'message': 'as asked', 'code': -7}";
                System.out.println(told.replace("'", "\\""));
            } else if (line.contains("end")) {
                System.err.println("the end");
                System.exit(3);
            } else if (!line.contains("silence")) {
                System.out.println("{\\"heard\\": " + line + ", \\"arguments\\": " + arguments.length + "}");
            }
        }
    }
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("java") / "Echo.java"
    path.write_text(ECHO)
    return path


def test_requests_are_answered_in_order(source):
    with JavaProgram(source, "one", "two") as program:
        assert program.request("say", word="x") == {"heard": {"op": "say", "word": "x"}, "arguments": 2}
        program.send("first")
        program.send("second")
        assert [program.answer()["heard"]["op"] for _ in "12"] == ["first", "second"]


def test_failures_are_told(source, tmp_path):
    with JavaProgram(source, log_path=tmp_path / "log") as program:
        with pytest.raises(JavaProgramError, match="Broken: as asked") as caught:
            program.request("fail")
        assert (caught.value.name, caught.value.code) == ("Broken", -7)
        with pytest.raises(TimeoutError, match=r"Echo did not answer within 0\.05 s"):
            program.request("silence", timeout_s=0.05)
        with pytest.raises(KitError, match="Echo ended"):
            program.request("end")
    assert "the end" in (tmp_path / "log").read_text()
    with pytest.raises(KitError, match="Echo does not run"):
        program.request("say")


def test_killed_program_is_gone(source):
    with JavaProgram(source) as program:
        program.request("say")
        pid = program.pid
        program.kill()
        assert await_end([pid], 0) == []
        with pytest.raises(KitError, match="Echo does not run"):
            program.send("say")


def test_program_is_compiled_once(source):
    jar = compiled(source)
    before = jar.stat().st_mtime_ns
    assert (compiled(source), jar.stat().st_mtime_ns) == (jar, before)


def test_errors_of_the_compiler_are_shown(tmp_path):
    broken = tmp_path / "Broken.java"
    broken.write_text("class Broken { nonsense }")
    with pytest.raises(KitError, match=r"does not compile:(.|\n)*Broken\.java:1: error"), JavaProgram(broken):
        pass
