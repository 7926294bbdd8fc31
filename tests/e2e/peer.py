"""A connection that keeps the types of replies: each is a pair of its first character and its value."""

import socket

from server import LIMIT_S


class Peer:
    def __init__(self, port: int, protocol: int = 2):
        self.protocol = protocol
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        self.say("HELLO", protocol)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_) -> None:
        self.file.close()
        self.socket.close()

    def say(self, *words) -> tuple:
        return self.say_all([words])[0]

    def say_all(self, commands: list) -> list[tuple]:
        """Returns the replies to several commands, which are sent together."""
        sent = bytearray()
        for words in commands:
            sent += b"*%d\r\n" % len(words)
            for word in words:
                word = word if isinstance(word, bytes) else str(word).encode()
                sent += b"$%d\r\n%b\r\n" % (len(word), word)
        self.socket.sendall(sent)
        return [self.reply() for _ in commands]

    def reply(self) -> tuple:
        line = self.file.readline()
        kind, rest = chr(line[0]), line[1:-2]
        if kind in "$=":
            size = int(rest)
            return kind, None if size < 0 else self.file.read(size + 2)[:-2]
        if kind in "*~>%":
            size = int(rest) * (2 if kind == "%" else 1)
            return kind, None if size < 0 else [self.reply() for _ in range(size)]
        if kind == ":":
            return kind, int(rest)
        if kind == "_":
            return kind, None
        return kind, rest.decode(errors="replace")


def shown(reply) -> str:
    """Formats a reply for people."""
    kind, value = reply
    if isinstance(value, list):
        return kind + "[" + " ".join(map(shown, value)) + "]"
    return f"{kind}{value}"
