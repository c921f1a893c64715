"""A Worker that does what its caller names: `POST /{action}` with JSON arguments, an answer as JSON."""

import asyncio
import json
import time

import js
from pyodide.ffi import JsException, to_js
from workers import Response, WorkerEntrypoint, fetch, wait_until

TO_OBJECT = js.Object.fromEntries


def values():
    """One of each type that D1 takes."""
    return ["né 你好", 7, 2**52, 0.5, True, None, b"\x00\xff"]


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        name = request.url.rpartition("/")[2].partition("?")[0]
        arguments = json.loads(await request.text() or "{}")
        try:
            answer = await getattr(self, f"do_{name}")(**arguments)
        except JsException as error:
            return Response.json({"error": {"name": error.name, "message": error.message}}, status=500)
        return Response.json(answer)

    async def scheduled(self, controller, env=None, ctx=None):
        if controller.cron == "fail":
            raise RuntimeError("told to fail")
        await self.note("cron", f"{controller.cron} {int(controller.scheduledTime)}")

    async def queue(self, batch, env=None, ctx=None):
        for message in batch.messages:
            await self.note(batch.queue, json.dumps(dict(message.body)))
            if batch.queue == "sample" and message.body.get("poison"):
                message.retry(delaySeconds=3600)
            else:
                message.ack()

    async def note(self, place, what):
        await self.env.DB.prepare("INSERT INTO seen (place, what) VALUES (?1, ?2)").bind(place, what).run()

    async def do_hello(self):
        return {"greeting": self.env.GREETING, "secret": self.env.SECRET}

    async def do_raise(self):
        raise RuntimeError("told to fail")

    async def do_print(self, text):
        print(text)

    async def do_seen(self, place):
        answer = await self.env.DB.prepare("SELECT what FROM seen WHERE place = ?1 ORDER BY id").bind(place).all()
        return [row["what"] for row in answer.results]

    async def do_values(self):
        row = await self.env.DB.prepare("SELECT ?1 a, ?2 b, ?3 c, ?4 d, ?5 e, ?6 f, ?7 g").bind(*values()).first()
        return dict(row)

    async def do_batch(self, statements):
        made = [self.env.DB.prepare(sql) for sql in statements]
        return [[dict(row) for row in answer.results] for answer in await self.env.DB.batch(made)]

    async def do_query(self, sql, values=(), times=1):
        for _ in range(times):
            answer = await self.env.DB.prepare(sql).bind(*values).all()
        return [dict(row) for row in answer.results]

    async def do_first(self, sql, column=None):
        found = await self.env.DB.prepare(sql).first(*([column] if column else []))
        return dict(found) if isinstance(found, dict) else found

    async def do_blob(self, size):
        return len(await self.env.DB.prepare("SELECT ?1 v").bind(bytes(size)).first("v"))

    async def do_together(self, count):
        await asyncio.gather(*(self.env.DB.prepare("SELECT 1").all() for _ in range(count)))

    async def do_send(self, **body):
        await self.env.QUEUE.send(body)

    async def do_send_batch(self, count, size=1):
        await self.env.QUEUE.sendBatch([{"body": {"text": "x" * size}} for _ in range(count)])

    async def do_put_blob(self, name, text):
        await self.env.BLOBS.put(name, text)

    async def do_get_blob(self, name):
        found = await self.env.BLOBS.get(name)
        return await found.text()

    async def do_limit(self):
        return (await self.env.LIMIT.limit({"key": "one"})).success

    async def do_ai(self, model, inputs):
        return await self.env.AI.run(model, inputs)

    async def do_vectorize(self, method, args):
        return await getattr(self.env.VECTORIZE, method)(*args)

    async def do_get(self, url, times=1):
        for _ in range(times):
            text = await (await fetch(url)).text()
        return text

    async def do_later(self):
        async def later():
            await asyncio.sleep(0.05)
            await self.note("later", "ctx")

        async def later_still():
            await asyncio.sleep(0.1)
            await self.note("later", "module")

        self.ctx.waitUntil(asyncio.create_task(later()))
        wait_until(asyncio.create_task(later_still()))

    async def do_pbkdf2(self, iterations):
        algorithm = to_js({"name": "PBKDF2"}, dict_converter=TO_OBJECT)
        key = await js.crypto.subtle.importKey("raw", to_js(b"secret"), algorithm, False, to_js(["deriveBits"]))
        rule = {"name": "PBKDF2", "hash": "SHA-256", "salt": to_js(b"salt"), "iterations": iterations}
        bits = await js.crypto.subtle.deriveBits(to_js(rule, dict_converter=TO_OBJECT), key, 256)
        return bits.to_bytes().hex()

    async def do_clock(self):
        def read():
            return [time.time(), time.monotonic(), time.perf_counter(), js.Date.now(), js.Date.new().getTime()]

        before = read()
        for _ in range(300_000):
            pass
        busy = read()
        await asyncio.sleep(0)
        stepped = read()
        await asyncio.sleep(0.05)
        slept = read()
        return {"before": before, "busy": busy, "stepped": stepped, "slept": slept}

    async def do_wait(self, seconds):
        async with asyncio.timeout(seconds + 5):
            await asyncio.sleep(seconds)
        return (await self.env.DB.prepare("SELECT 1 AS one").first())["one"]

    async def do_hang(self):
        await asyncio.get_running_loop().create_future()

    async def do_random(self):
        import random
        import secrets
        import uuid

        return [random.random(), secrets.token_hex(8), str(uuid.uuid4())]
