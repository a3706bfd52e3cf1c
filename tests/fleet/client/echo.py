"""A server in a process of its own that costs next to nothing: it answers all with one receipt."""

from __future__ import annotations

import asyncio

RECEIPT = b'{"ticket":"0b7c5f3a90c2e845-17","arm":"blue","reward":1.0,"duplicate":false}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 16 Nov 2026 00:00:00 GMT\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(RECEIPT), RECEIPT)
)


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.write = transport.write

    def data_received(self, data: bytes) -> None:
        self.write(ANSWER)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
