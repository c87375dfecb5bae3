"""A bad network between mail workers and a mail server.

It passes LMTP on, letter by letter, and knows where in a letter it is.  Told to,
it cuts connections: before the data (nothing of the letter arrives), in the
middle of it, or after it (everything arrives, but the answer does not come back).
A worker sees the same each time.
"""

import asyncio
import collections
import random
import threading

BEFORE, MIDDLE, AFTER = "before the data", "in the data", "after the data, before the answer"
LONGEST_LETTER = 1 << 20


class Cut(Exception):
    """The network drops a connection."""


class Network:
    """Runs in a thread of its own."""

    def __init__(self, server_port):
        self.server_port = server_port
        self.cut_share = 0.0                    # of the letters
        self.letters = 0                        # that came this far
        self.cuts = collections.Counter()
        self.random = random.Random(48)
        self.writers = set()
        self.is_down = False
        self.loop = asyncio.new_event_loop()
        self.listener = self.loop.run_until_complete(asyncio.start_server(
            self.connection, "127.0.0.1", 0, limit=LONGEST_LETTER))
        self.port = self.listener.sockets[0].getsockname()[1]
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def start(self):
        self.thread.start()

    def stop(self):
        self.go_down()
        self.loop.call_soon_threadsafe(self.loop.call_later, 0.1, self.loop.stop)
        self.thread.join()
        self.loop.close()

    def go_down(self):
        """Drops every connection, and each new one."""
        self.loop.call_soon_threadsafe(self.drop_all)

    def come_up(self):
        self.is_down = False

    def drop_all(self):
        self.is_down = True
        for writer in list(self.writers):
            writer.transport.abort()

    async def connection(self, client, to_client):
        if self.is_down:
            to_client.transport.abort()
            return
        server, to_server = await asyncio.open_connection("127.0.0.1", self.server_port, limit=LONGEST_LETTER)
        self.writers |= {to_client, to_server}
        try:
            await self.answer(server, to_client)
            while command := await client.readline():
                to_server.write(command)
                code = await self.answer(server, to_client)
                if command.strip().upper() == b"DATA" and code == b"354":
                    await self.letter(client, to_client, server, to_server)
        except (Cut, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writers -= {to_client, to_server}
            to_server.transport.abort()
            to_client.transport.abort()

    async def letter(self, client, to_client, server, to_server):
        data = await client.readuntil(b"\r\n.\r\n")
        self.letters += 1
        where = None
        if self.random.random() < self.cut_share:
            where = self.random.choice((BEFORE, MIDDLE, AFTER, AFTER))
            self.cuts[where] += 1
        if where == BEFORE:
            raise Cut
        to_server.write(data[:len(data) // 2] if where == MIDDLE else data)
        await to_server.drain()
        if where == MIDDLE:
            raise Cut
        if where == AFTER:
            await server.readline()             # the answer, which nobody hears
            raise Cut
        await self.answer(server, to_client)

    @staticmethod
    async def answer(server, to_client):
        """Passes an answer of one line or more on; its code."""
        while True:
            line = await server.readline()
            if not line:
                raise Cut
            to_client.write(line)
            if line[3:4] != b"-":
                return line[:3]
