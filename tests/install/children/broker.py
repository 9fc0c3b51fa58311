"""Does task 1 of a broker with the handlers of ``shop``, asks its page, and looks for its drill."""

import asyncio
import json
import sys
import threading
from importlib.metadata import entry_points

from herdpy_broker.broker import Broker
from herdpy_broker.child import handlers_named
from herdpy_broker.web.app import BrokerApp
from herdpy_broker.worker import Worker

sys.path.insert(0, "")
url = sys.argv[1]
worker = Worker(url, handlers_named("shop:HANDLERS"))
thread = threading.Thread(target=worker.run)
thread.start()
try:
    with Broker(url) as broker:
        result = broker.result(1, timeout_s=60)
finally:
    worker.stop()
    thread.join()


async def status() -> int:
    """Of the page's answer to a browser of this machine."""
    answers: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    scope = {
        "type": "http", "method": "GET", "path": "/schedules", "raw_path": b"/schedules", "query_string": b"",
        "headers": [(b"host", b"localhost")], "scheme": "http", "client": ("127.0.0.1", 1), "root_path": "",
    }  # fmt: skip

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    app = BrokerApp(url)
    reading = asyncio.create_task(app.site.poller.run())
    await app(scope, receive, answers.put)
    await app.site.poller.stop()
    await reading
    app.site.pool.close()
    return int(str((await answers.get())["status"]))


page = asyncio.run(status())
drills = [point.load().name for point in entry_points(group="herdpy.drill.drills")]
print(json.dumps({"result": result, "page": page, "drills": drills}))
