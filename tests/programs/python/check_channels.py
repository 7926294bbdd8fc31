"""Core layer of channels_redis: messages, groups, capacity, and messages that a killed receiver had taken."""

import asyncio
import sys

from channels.exceptions import ChannelFull
from channels_redis.core import RedisChannelLayer
from programs import LIMIT_S, client, until, url, worker

CONFIG = {"hosts": [url(1)], "prefix": "check", "capacity": 100, "channel_capacity": {"small": 2}}


async def receive(layer: RedisChannelLayer, channel: str) -> dict:
    return await asyncio.wait_for(layer.receive(channel), LIMIT_S)


async def exchange() -> None:
    layer = RedisChannelLayer(**CONFIG)
    first, second = await layer.new_channel(), await layer.new_channel()
    await layer.send(first, {"type": "one", "n": 1})
    assert await receive(layer, first) == {"type": "one", "n": 1}
    for channel in (first, second):
        await layer.group_add("group", channel)
    await layer.group_send("group", {"type": "all"})
    assert (await receive(layer, first))["type"] == "all"
    assert (await receive(layer, second))["type"] == "all"
    await layer.group_discard("group", second)
    await layer.group_send("group", {"type": "rest"})
    assert (await receive(layer, first))["type"] == "rest"
    for _ in range(2):
        await layer.send("small", {"type": "fits"})
    try:
        await layer.send("small", {"type": "too many"})
        raise AssertionError("a channel took more than its capacity")
    except ChannelFull:
        pass
    await layer.flush()
    assert client(1).keys() == []


async def received_again_after_a_kill() -> None:
    layer = RedisChannelLayer(**CONFIG)
    server = client(1)
    with worker(sys.executable, __file__, "receive") as receiver:
        until("the receiver waits", lambda: any(each["cmd"] == "bzpopmin" for each in server.client_list()))
        receiver.kill()
    until("its connection is closed", lambda: not any(each["cmd"] == "bzpopmin" for each in server.client_list()))
    await layer.send("work", {"type": "one"})
    # The state that a receiver leaves behind if it is killed between taking a message and returning it.
    raw = client(1, encoding="latin-1")
    [(member, score)] = raw.zpopmin("checkwork")
    raw.zadd("checkwork$inflight", {member: score})
    with worker(sys.executable, __file__, "receive") as receiver:
        assert receiver.process.wait(LIMIT_S) == 0, "the message of the killed receiver was not received again"
    until("the message is removed from the backup", lambda: not server.exists("checkwork", "checkwork$inflight"))


async def receive_one() -> None:
    layer = RedisChannelLayer(**CONFIG)
    assert await receive(layer, "work") == {"type": "one"}
    await layer.close_pools()


if __name__ == "__main__":
    if sys.argv[1:] == ["receive"]:
        asyncio.run(receive_one())
    else:
        asyncio.run(exchange())
        asyncio.run(received_again_after_a_kill())
