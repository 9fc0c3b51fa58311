"""Each command takes each kind of URL that docs/cli.md says it takes: a cluster, its ZooKeeper, a profile."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import herdpy
from herdpy.cli import prompt, target
from herdpy.cli.app import app
from herdpy.cli.shell import Shell

pytestmark = pytest.mark.timeout(120)

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
KINDS = ("servers", "zookeeper", "profile")


@pytest.fixture(scope="module")
def urls(cluster, tmp_path_factory):
    """A URL of each kind, all for the same tablespace, which has a table."""
    home = tmp_path_factory.mktemp("home")
    by_zookeeper = f"herdpy+zk://{cluster.zookeeper}/herdpy?tablespace=herdpy"
    (home / "herdpy").mkdir()
    (home / "herdpy" / "profiles.toml").write_text(f'[there]\nurl = "{by_zookeeper}"\nuser = "ann"\n')
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS fruit (id INTEGER PRIMARY KEY, name TEXT)")
        conn.execute("DELETE FROM fruit")
        conn.execute("INSERT INTO fruit VALUES (1, 'apple'), (2, 'pear')")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(home))
        yield {"servers": cluster.url, "zookeeper": by_zookeeper, "profile": "@there"}


@pytest.fixture(params=KINDS)
def url(urls, request):
    return urls[request.param]


def test_the_page_has_each_command_that_takes_a_database():
    table = PAGE[PAGE.index("| command | a directory | servers") :].split("\n\n")[0]
    told = {name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z ]+)`", row.split("|")[1])}
    there = {one.name for one in app.registered_commands} | {one.name for one in app.registered_groups}
    there -= {"server", "version", "ledgers", "dev", "snapshot"}
    assert told == there | {"snapshot copy", "snapshot publish"}


def run(*arguments, code=0, **environment):
    done = CliRunner().invoke(app, [str(one) for one in arguments], env=environment)
    assert done.exit_code == code, f"{done.stdout}\n{done.stderr}\n{done.exception!r}"
    return done


def test_sql(url):
    assert json.loads(run("sql", url, "--json", "-c", "SELECT name FROM fruit WHERE id = 1").stdout) == [
        {"name": "apple"}
    ]


def test_import_and_export(urls, tmp_path):
    url = urls["zookeeper"]
    source, back = tmp_path / "veg.csv", tmp_path / "veg.jsonl"
    source.write_text("id,name\n1,leek\n2,kale\n")
    run("import", url, source, "--table", "veg", "--key", "id", "--replace", "--restart")
    run("export", url, "veg", back)
    assert [json.loads(line)["name"] for line in back.read_text().splitlines()] == ["leek", "kale"]


def test_status_and_tablespaces(url):
    status = json.loads(run("status", url, "--json").stdout)
    assert [row["node"] for row in status["nodes"]] == ["server-1", "server-2", "server-3"]
    assert [row["name"] for row in json.loads(run("tablespace", "ls", url, "--json").stdout)] == ["herdpy"]


def test_info_log_check_and_checkpoint(urls):
    url = urls["zookeeper"]
    info = json.loads(run("info", url, "--json").stdout)
    assert (info["tablespace"], info["state"]) == ("herdpy", "led")
    assert {"table": "fruit", "rows": 2} in info["tables"]
    assert json.loads(run("log", url, "--json").stdout)[-1]["state"] == "open"
    checked = json.loads(run("check", url, "--json").stdout)
    assert {"server-1", "server-2", "server-3"} == {row["node"] for row in checked}
    assert all(row["same"] for row in checked)
    assert "deleted_ledgers" in json.loads(run("checkpoint", url, "--json").stdout)


def test_what_only_files_can_tell_is_refused(urls):
    for arguments in (("log", "--rows"), ("log", "--ledger", "1"), ("check", "--log-only")):
        done = run(arguments[0], urls["servers"], *arguments[1:], code=2)
        assert "for a database in a directory" in done.stderr


def test_a_copy(urls, tmp_path):
    copy = json.loads(run("snapshot", urls["zookeeper"], tmp_path / "copy", "--json").stdout)
    assert copy["directory"] == str(tmp_path / "copy")
    assert "pear" in run("sql", tmp_path / "copy", "-c", "SELECT * FROM fruit").stdout


def test_a_server_alone(server, tmp_path):
    url = f"herdpy://ann@127.0.0.1:{server.port}/test"
    run("sql", url, "-c", "CREATE TABLE IF NOT EXISTS alone (n INTEGER)")
    assert {"table": "alone", "rows": 0} in json.loads(run("info", url, "--json").stdout)["tables"]
    # Its gRPC door has whichever port was free, which its settings do not tell.
    told = run("snapshot", url, tmp_path / "copy", code=1).stderr
    assert "no server of tablespace test tells where its gRPC door is" in told


def test_a_directory(tmp_path):
    run("sql", tmp_path / "db", "-c", "CREATE TABLE here (n INTEGER)")
    status = json.loads(run("status", tmp_path / "db", "--json").stdout)
    assert [(row["name"], row["state"]) for row in status["tablespaces"]] == [("herdpy", "alone")]
    run("status", tmp_path / "nothing", code=1)
    assert not (tmp_path / "nothing").exists()


def test_profiles_and_the_environment(urls):
    assert "pear" in run("sql", "--profile", "there", "-c", "SELECT * FROM fruit").stdout
    assert "pear" in run("sql", "-c", "SELECT * FROM fruit", HERDPY_URL="@there").stdout
    assert "pear" in run("sql", "--profile", "there", "-c", "TABLE fruit", HERDPY_URL="herdpy:nothing").stdout
    assert "led" in run("status", HERDPY_URL=urls["servers"]).stdout
    assert "exclude each other" in run("sql", "@there", "--profile", "there", "-c", "x", code=2).stderr
    assert "no database is named" in run("sql", "-c", "SELECT 1", code=2, HERDPY_URL="").stderr
    assert "no profile 'ther'" in run("status", "@ther", code=2).stderr
    assert "not known: wibble" in run("sql", f"{urls['servers']}?wibble=1", "-c", "x", code=2).stderr


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
    line = prompt.StatusLine()
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


def test_the_shell_tells_no_password(server, capsys):
    found = target.parse(f"herdpy://ann:s3cret@127.0.0.1:{server.port}/test", servers=True)
    one = Shell(target.connect(found, autocommit=True), found)
    try:
        one.run_script("\\conninfo")
    finally:
        one.close()
    assert f"ann:***@127.0.0.1:{server.port}" in capsys.readouterr().out
