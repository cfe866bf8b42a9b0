"""A web service with FastAPI: requests become records, and a consumer on the same event loop keeps totals.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster. It needs ``pip install
fastapi uvicorn``. Then, in another shell::

    curl -X POST 'http://127.0.0.1:8000/orders/tea?cups=2'
    curl 'http://127.0.0.1:8000/totals'
    curl 'http://127.0.0.1:8000/ready'
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import uvicorn
from fastapi import FastAPI, HTTPException, Response

from pyconsumer.admin import NewTopic
from pyconsumer.aio import AsyncKafkaAdminClient, AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import KafkaError, TopicAlreadyExistsError

TOPIC, GROUP = "cups", "totals"


def make_app(servers: str) -> FastAPI:
    totals: Counter[str] = Counter()

    async def count(consumer: AsyncKafkaConsumer) -> None:
        async for record in consumer:  # ends when the consumer is closed
            totals[record.key.decode()] += int(record.value)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """Open the clients when the service starts. On SIGTERM commit, leave the group, and send the rest."""
        async with AsyncKafkaAdminClient(bootstrap_servers=servers) as admin:
            try:
                await admin.create_topics([NewTopic(TOPIC, 2)])
            except TopicAlreadyExistsError:
                pass
        consumer = AsyncKafkaConsumer(TOPIC, bootstrap_servers=servers, group_id=GROUP, auto_offset_reset="earliest")
        async with AsyncKafkaProducer(bootstrap_servers=servers) as producer, asyncio.TaskGroup() as tasks:
            app.state.producer, app.state.consumer = producer, consumer
            tasks.create_task(count(consumer))
            yield
            await consumer.close()
        print("the group has been left")

    app = FastAPI(title="Tea", lifespan=lifespan)

    @app.post("/orders/{drink}", status_code=202)
    async def order(drink: str, cups: int = 1) -> dict[str, int]:
        try:
            stored = await app.state.producer.send_and_wait(TOPIC, str(cups), key=drink)
        except KafkaError as error:
            raise HTTPException(503, str(error)) from error
        return {"partition": stored.partition, "offset": stored.offset}

    @app.get("/totals")
    async def show() -> dict[str, int]:
        return dict(totals)

    @app.get("/alive")
    async def alive(response: Response) -> dict[str, bool]:
        """For a liveness probe: start the service again if nothing calls the consumer any more."""
        found = {"consumer": app.state.consumer.health().is_alive(), "producer": app.state.producer.health().is_alive()}
        response.status_code = 200 if all(found.values()) else 503
        return found

    @app.get("/ready")
    async def ready(response: Response) -> dict[str, bool]:
        """For a readiness probe: send no requests while there is no assignment, or a broker is missing."""
        found = {"consumer": app.state.consumer.health().is_ready(), "producer": app.state.producer.health().is_ready()}
        response.status_code = 200 if all(found.values()) else 503
        return found

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        at_once = {"group.initial.rebalance.delay.ms": 0}  # Kafka's default waits 3 s for more members
        address = arguments.bootstrap_servers or stack.enter_context(EmbeddedCluster(config=at_once)).bootstrap_servers
        uvicorn.run(make_app(address), host="127.0.0.1", port=arguments.port)
