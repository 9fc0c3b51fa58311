"""Each command takes each kind of URL that docs/cli.md says it takes: a cluster, its ZooKeeper, a profile."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import herdpy
from herdpy.cli import repl, target
from herdpy.cli.app import app
from herdpy.cli.errors import CliError
from herdpy.cli.shell import Shell
from herdpy.cli.target import DatabaseCommand
from herdpy.dbapi.address import address_of

pytestmark = pytest.mark.timeout(120)

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
KINDS = ("directory", "servers", "zookeeper")


@pytest.fixture(scope="module")
def urls(cluster, tmp_path_factory):
    """A URL of each kind; they lead to a directory and to a tablespace with the same table."""
    home = tmp_path_factory.mktemp("home")
    by_zookeeper = f"herdpy+zk://{cluster.zookeeper}/herdpy?tablespace=herdpy"
    (home / "herdpy").mkdir()
    (home / "herdpy" / "profiles.toml").write_text(f'[there]\nurl = "{by_zookeeper}"\nuser = "ann"\n')
    directory = str(home / "db")
    for one in (directory, cluster.url):
        with herdpy.connect(one, autocommit=True) as conn:
            conn.execute("CREATE TABLE IF NOT EXISTS fruit (id INTEGER PRIMARY KEY, name TEXT)")
            conn.execute("DELETE FROM fruit")
            conn.execute("INSERT INTO fruit VALUES (1, 'apple'), (2, 'pear')")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(home))
        yield {"directory": directory, "servers": cluster.url, "zookeeper": by_zookeeper}


def test_the_page_has_each_command_that_takes_a_database():
    table = PAGE[PAGE.index("| command | a directory | servers") :].split("\n\n")[0]
    told = {name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z ]+)`", row.split("|")[1])}
    there = {one.name for one in app.registered_commands} | {one.name for one in app.registered_groups}
    there -= {
        "server",
        "init",
        "doctor",
        "version",
        "ledgers",
        "dev",
        "snapshot",
        "admin",
        "restore",
        "backups",
    }
    assert told == there | {"snapshot copy", "snapshot publish"}


def run(*arguments, code=0, **environment):
    done = CliRunner().invoke(app, [str(one) for one in arguments], env=environment)
    assert done.exit_code == code, f"{done.stdout}\n{done.stderr}\n{done.exception!r}"
    return done


def place_of(urls, kind):
    """The arguments that name the database; its ZooKeeper is named by a profile."""
    return ["--profile", "there"] if kind == "zookeeper" else [urls[kind]]


def sql(urls, kind, tmp_path):
    done = run("sql", *place_of(urls, kind), "--json", "-c", "SELECT name FROM fruit WHERE id = 1")
    assert json.loads(done.stdout) == [{"name": "apple"}]


def import_and_export(urls, kind, tmp_path):
    place, source, back = place_of(urls, kind), tmp_path / "veg.csv", tmp_path / "veg.jsonl"
    source.write_text("id,name\n1,leek\n2,kale\n")
    run("import", *place, source, "--table", "veg", "--key", "id", "--replace", "--restart")
    run("export", *place, "veg", back)
    assert [json.loads(line)["name"] for line in back.read_text().splitlines()] == ["leek", "kale"]


def changes(urls, kind, tmp_path):
    run("sql", *place_of(urls, kind), "-c", "UPDATE fruit SET name = 'pear' WHERE id = 2")
    done = run("changes", *place_of(urls, kind), "--table", "fruit")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert "apple" in [one["after"]["name"] for one in found if one["after"]]


def status(urls, kind, tmp_path):
    found = json.loads(run("status", *place_of(urls, kind), "--json").stdout)
    nodes = [] if kind == "directory" else ["server-1", "server-2", "server-3"]
    assert [row["node"] for row in found["nodes"]] == nodes
    assert "herdpy" in [row["name"] for row in found["tablespaces"]]


def info(urls, kind, tmp_path):
    run("checkpoint", *place_of(urls, kind))  # of a directory, it is the state of the last one
    found = json.loads(run("info", *place_of(urls, kind), "--json").stdout)
    assert ("fruit", 2) in [(row["table"], row["rows"]) for row in found["tables"]]


def log(urls, kind, tmp_path):
    place = place_of(urls, kind)
    ledgers = json.loads(run("log", *place, "--json").stdout)
    assert len(ledgers) == json.loads(run("info", *place, "--json").stdout)["ledgers"]
    assert kind == "directory" or ledgers[-1]["state"] == "open"


def check(urls, kind, tmp_path):
    checked = json.loads(run("check", *place_of(urls, kind), "--json").stdout)
    if kind == "directory":
        assert checked["ok"]
    else:
        assert {"server-1", "server-2", "server-3"} == {row["node"] for row in checked}
        assert all(row["same"] for row in checked)


def checkpoint(urls, kind, tmp_path):
    assert "deleted_ledgers" in json.loads(run("checkpoint", *place_of(urls, kind), "--json").stdout)


def snapshot_copy(urls, kind, tmp_path):
    command = ["snapshot", *place_of(urls, kind), tmp_path / "copy", "--json"]
    if kind == "directory":
        assert "names a directory" in run(*command, code=2).stderr
        return
    assert json.loads(run(*command).stdout)["directory"] == str(tmp_path / "copy")
    assert "pear" in run("sql", tmp_path / "copy", "-c", "SELECT * FROM fruit").stdout


def snapshot_publish(urls, kind, tmp_path):
    done = run("snapshot", "publish", *place_of(urls, kind), "--to", tmp_path / "published", "--json")
    assert json.loads(done.stdout)["lsn"]
    (listed,) = json.loads(
        run(
            "snapshot", "list", tmp_path / "published", "--json",
            *([] if kind == "directory" else ["--tablespace", "herdpy"]),
        ).stdout
    )  # fmt: skip
    assert listed["rows"] >= 2


def tablespaces(urls, kind, tmp_path):
    place, name = place_of(urls, kind), f"of_{kind}"
    if kind == "directory":
        for words in (["ls"], ["create", name], ["alter", name, "--leader", "none"], ["check", name]):
            told = run("tablespace", words[0], *place, *words[1:], code=2).stderr
            assert "for servers, and the URL names a directory" in told
        return
    run("tablespace", "create", *place, name, "--expected-replicas", "1", "--leader", "server-1")
    try:
        assert json.loads(run("tablespace", "check", *place, name, "--json").stdout)[0]["same"]
        run("tablespace", "alter", *place, name, "--leader", "none")
        told = run("tablespace", "leader", *place, name, "server-1", "--json").stdout
        assert json.loads(told)["tablespace"]["leader"] == "server-1"
        assert name in run("tablespace", "ls", *place).stdout
    finally:
        run("tablespace", "drop", *place, name, "--yes")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "command",
    [
        sql,
        import_and_export,
        changes,
        status,
        info,
        log,
        check,
        checkpoint,
        snapshot_copy,
        snapshot_publish,
        tablespaces,
    ],
)
def test_each_command_with_each_kind_of_url(urls, kind, command, tmp_path):
    command(urls, kind, tmp_path)


def test_each_command_has_the_options_for_it(urls):
    """A command that is added is on databases, and then like the others, or it is listed here."""
    elsewhere = {
        "server",
        "init",
        "doctor",
        "version",
        "spark",
        "restore",
        "snapshot list",
        "snapshot rescue",
    }
    found = {one.name: one for one in app.registered_commands}
    for group in app.registered_groups:
        if group.name in ("tablespace", "snapshot"):
            commands = group.typer_instance.registered_commands
            found |= {f"{group.name} {one.name}": one for one in commands}
    assert {name for name, one in found.items() if one.cls is not DatabaseCommand} == elsewhere
    for name in found.keys() - elsewhere:
        assert "No database is named" in run(*name.split(), code=2, HERDPY_URL="").stderr


def test_what_only_files_can_tell_is_refused(urls):
    for arguments in (("log", "--rows"), ("log", "--ledger", "1"), ("check", "--log-only")):
        done = run(arguments[0], urls["servers"], *arguments[1:], code=2)
        assert "for a database in a directory" in done.stderr


def test_a_server_alone(server, tmp_path):
    url = f"herdpy://ann@127.0.0.1:{server.port}/test"
    run("sql", url, "-c", "CREATE TABLE IF NOT EXISTS alone (n INTEGER)")
    assert {"table": "alone", "rows": 0} in json.loads(run("info", url, "--json").stdout)["tables"]
    # Its gRPC listener has whichever port was free, which its settings do not tell.
    told = run("snapshot", url, tmp_path / "copy", code=1).stderr
    assert "no server of tablespace test reports its gRPC endpoint" in told


def test_a_directory(tmp_path):
    run("sql", tmp_path / "db", "-c", "CREATE TABLE here (n INTEGER)")
    status = json.loads(run("status", tmp_path / "db", "--json").stdout)
    assert [(row["name"], row["state"]) for row in status["tablespaces"]] == [("herdpy", "alone")]
    run("status", tmp_path / "nothing", code=1)
    assert not (tmp_path / "nothing").exists()


def test_profiles_and_the_environment(urls):
    assert "pear" in run("sql", urls["zookeeper"], "-c", "SELECT * FROM fruit").stdout
    assert "pear" in run("sql", "-c", "SELECT * FROM fruit", HERDPY_URL="@there").stdout
    assert "pear" in run("sql", "--profile", "there", "-c", "TABLE fruit", HERDPY_URL="herdpy:nothing").stdout
    assert "led" in run("tablespace", "ls", "--profile=there").stdout
    assert "led" in run("status", HERDPY_URL=urls["servers"]).stdout
    assert "exclude each other" in run("sql", "@there", "--profile", "there", "-c", "x", code=2).stderr
    assert "exclude each other" in run("status", "@there", "--profile", "there", code=2).stderr
    assert "no profile 'ther'" in run("status", "@ther", code=2).stderr
    assert "not known: wibble" in run("sql", f"{urls['servers']}?wibble=1", "-c", "x", code=2).stderr


def test_the_environment_stands_before_what_else_is_named(urls, tmp_path):
    source = tmp_path / "few.csv"
    source.write_text("n\n1\n")
    run("import", source, "-t", "few", HERDPY_URL=urls["directory"])
    run("export", "--query", "SELECT n FROM few", tmp_path / "back.csv", HERDPY_URL=urls["directory"])
    assert (tmp_path / "back.csv").read_text().split() == ["n", "1"]
    told = run("tablespace", "check", "herdpy", "--json", HERDPY_URL="@there").stdout
    assert json.loads(told)[0]["same"]


def test_profiles_for_what_takes_a_url_as_an_option(tmp_path, monkeypatch):
    file = tmp_path / "herdpy" / "profiles.toml"
    file.parent.mkdir()
    file.write_text('[db]\nurl = "herdpy://db1/shop?target=leader"\nuser = "a b"\npassword = "s3cret"\n')
    file.chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HERDPY_PASSWORD", raising=False)
    assert target.spelled_out(None, None) is None
    assert target.spelled_out("herdpy://x/y") == "herdpy://x/y"
    try:
        assert target.spelled_out("@db") == target.spelled_out(None, "db")
        assert target.spelled_out("@db") == "herdpy://db1/shop?target=leader&user=a+b"
        assert os.environ["HERDPY_PASSWORD"] == "s3cret"
        options = address_of(target.spelled_out("@db")).options
        assert (options.user, options.password) == ("a b", "s3cret")
    finally:
        os.environ.pop("HERDPY_PASSWORD", None)
    with pytest.raises(CliError, match="exclude each other"):
        target.spelled_out("herdpy://x/y", "db")
    told = run("drill", "kill-leader", "--profile", "none", "--commands", file, code=2).stderr
    assert "no profile 'none'" in told


@pytest.fixture
def shell():
    opened = []

    def open_shell(place):
        found = target.parse(place, servers=True)
        opened.append(Shell(target.connect(found, autocommit=True), found, prompt="status"))
        return opened[-1]

    yield open_shell
    for one in opened:
        one.close()


def test_the_prompt_shows_the_leader_the_read_level_and_the_lag(urls, cluster, shell, tmp_path):
    leader = cluster.await_leader()
    line = repl.StatusLine()
    one = shell(urls["servers"])
    line.renew(one)
    assert line.shown == f" [leader {leader}, linearizable, lag 0]"
    one.connection.execute("BEGIN")
    one.connection.execute("SET herdpy.read_level = 'any'")
    line.renew(one)
    assert "linearizable" in line.shown  # nothing is asked within a transaction
    one.connection.commit()
    line.renew(one)
    assert ", any, " in line.shown
    one.run_script("\\prompt plain")
    line.renew(one)
    assert line.shown == ""

    line.renew(shell(f"{urls['servers']}?target=follower"))
    assert re.fullmatch(rf" \[leader {leader}, here server-\d, bounded, lag \d+\]", line.shown)
    line.renew(shell(str(tmp_path / "db")))
    assert line.shown == " [in this process, linearizable]"


def test_the_prompt_follows_the_leader(urls, cluster, shell):
    old = cluster.await_leader()
    successor = next(name for name in ("server-1", "server-2", "server-3") if name != old)
    one, line = shell(urls["zookeeper"]), repl.StatusLine()
    line.renew(one)
    assert f"leader {old}, " in line.shown
    run("tablespace", "leader", urls["servers"], "herdpy", successor)
    try:
        assert cluster.await_leader(other_than=old) == successor
        line.renew(one)  # reads are answered by any server
        assert line.shown.startswith(f" [leader {successor}, ")
        assert one.run_script("DELETE FROM fruit WHERE false")  # is not: the driver goes to the leader
        line.renew(one)
        assert line.shown == f" [leader {successor}, linearizable, lag 0]"
    finally:
        run("tablespace", "alter", urls["servers"], "herdpy", "--leader", "none")


def test_the_shell_tells_no_password(server, capsys):
    found = target.parse(f"herdpy://ann:s3cret@127.0.0.1:{server.port}/test", servers=True)
    one = Shell(target.connect(found, autocommit=True), found)
    try:
        one.run_script("\\conninfo")
    finally:
        one.close()
    assert f"ann:***@127.0.0.1:{server.port}" in capsys.readouterr().out
