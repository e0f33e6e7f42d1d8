"""A proxy between client and server that drops, delays, half-closes and swallows at a moment the test chooses."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

CHUNK = 65536
Watch = Callable[[bytes], str | None]
"""Looks at what a client sends (or a server answers) and names what to do before it is passed on, or None."""


class Proxy:
    """Listens on a loopback port and passes everything on, until a watch says otherwise.

    What a watch may say: ``drop`` (both sides are cut, this chunk is not passed on), ``pass and drop`` (it is passed
    on, then the client is cut), ``swallow`` (this and everything after it in this direction is kept back for ever),
    ``half-close`` (the client's side is closed for writing; the server may still be answered).
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.sent: Watch = lambda chunk: None
        self.answered: Watch = lambda chunk: None
        self.refusing = False
        self.connections = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def once(self, what: str, when: Callable[[bytes], bool], *, answers: bool = False) -> threading.Event:
        """Do ``what`` at the first chunk for which ``when`` holds, then behave; the event says that it happened."""
        done = threading.Event()

        def watch(chunk: bytes) -> str | None:
            if done.is_set() or not when(chunk):
                return None
            done.set()
            return what

        if answers:
            self.answered = watch
        else:
            self.sent = watch
        return done

    def calm(self) -> None:
        """Pass everything on from now on."""
        self.sent = self.answered = lambda chunk: None
        self.refusing = False

    def cut(self) -> None:
        """Cut every connection there is."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for side in pair:
                _close(side)

    def close(self) -> None:
        """Cut everything and stop listening."""
        _close(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.refusing:
                _close(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _close(client)
                continue
            with self._lock:
                self._pairs.append((client, server))
            for source, target, watched in ((client, server, "sent"), (server, client, "answered")):
                threading.Thread(target=self._pass_on, args=(source, target, watched), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, watched: str) -> None:
        swallowing = False
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK):
                what = None if swallowing else getattr(self, watched)(chunk)
                swallowing = swallowing or what == "swallow"
                if what == "drop":
                    break
                if not swallowing:
                    target.sendall(chunk)
                if what == "pass and drop":
                    break
                if what == "half-close":
                    target.shutdown(socket.SHUT_WR)
                    swallowing = True
        _close(source)
        _close(target)


def _close(side: socket.socket) -> None:
    with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()
