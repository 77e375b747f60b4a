"""Asks many control ports at once, each inside its namespace, on one thread without waiting. Also
the steps that are seen this way."""

import errno
import json
import math
import selectors
import socket
import time

from .machine import inside

PATIENCE = 2.0
REPLY_MAX = 4 << 20


class _Request:
    def __init__(self, target, path, connection, deadline):
        self.target, self.path, self.connection = target, path, connection
        self.deadline = deadline
        self.sent = False
        self.reply = bytearray()


class Watcher:
    """`targets` are peers (processes.Peer); `heard(peer, path, reply, now)` gets their replies."""

    def __init__(self, targets, heard, clock, intervals):
        """`intervals`: {path: seconds between two questions to the same peer}."""
        self.heard, self.clock = heard, clock
        self.selector = selectors.DefaultSelector()
        self.due = [[0.0, index, peer, path, interval]
                    for index, peer in enumerate(targets) for path, interval in intervals.items()]
        self.busy = {}

    def run_until(self, end):
        """Asks and listens until that time."""
        while True:
            now = self.clock()
            if now >= end:
                return
            wait = min(self._start_due(now), end - now)
            for key, _ in self.selector.select(max(0.0, wait)):
                self._go_on(key.data)
            self._give_up(self.clock())

    def _start_due(self, now):
        """Starts the requests that are due; returns the seconds until the next one."""
        wait = 1.0
        for entry in self.due:
            when, _, peer, path, interval = entry
            if when <= now:
                entry[0] = now + interval
                if peer.state == "running" and (peer, path) not in self.busy:
                    self._start(peer, path, now)
            wait = min(wait, entry[0] - now)
        return wait

    def _start(self, peer, path, now):
        control = peer.control()
        if control is None:
            return
        with inside(peer.namespace):
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        if connection.connect_ex(control) not in (0, errno.EINPROGRESS):
            connection.close()
            return
        request = _Request(peer, path, connection, now + PATIENCE)
        self.busy[peer, path] = request
        self.selector.register(connection, selectors.EVENT_WRITE, request)

    def _go_on(self, request):
        try:
            if not request.sent:
                request.connection.send(f"GET {request.path} HTTP/1.0\r\n\r\n".encode())
                request.sent = True
                self.selector.modify(request.connection, selectors.EVENT_READ, request)
                return
            part = request.connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            return self._end(request)
        request.reply += part
        if len(request.reply) > REPLY_MAX:
            return self._end(request)
        if part:
            return
        head, _, body = bytes(request.reply).partition(b"\r\n\r\n")
        self._end(request)
        if head.split(b" ")[1:2] != [b"200"]:
            return
        try:
            reply = json.loads(body)
        except ValueError:
            return
        if request.target.state == "running":
            self.heard(request.target, request.path, reply, self.clock())

    def _end(self, request):
        self.busy.pop((request.target, request.path), None)
        self.selector.unregister(request.connection)
        request.connection.close()

    def _give_up(self, now):
        for request in [r for r in self.busy.values() if r.deadline <= now]:
            self._end(request)

    def forget(self, target):
        """Drops the questions of a former life: this one does not answer them."""
        for request in [r for r in self.busy.values() if r.target is target]:
            self._end(request)

    def close(self):
        for request in list(self.busy.values()):
            self._end(request)
        self.selector.close()


def note_steps(steps, status, now):
    """Adds to the seen steps of a peer, [(steps, when)], if its status reports more of them."""
    if status.get("steps", 0) > (steps[-1][0] if steps else 0):
        steps.append((status["steps"], now))


def longest_pause(steps, after, until=math.inf):
    """Seconds between two consecutive steps that were seen, the later of them after `after`
    and by `until`; None: there is no such pair."""
    times = [when for _, when in steps]
    return max((b - a for a, b in zip(times, times[1:]) if after < b <= until), default=None)


def clock():
    """Seconds on a clock that never goes back."""
    return time.monotonic()
