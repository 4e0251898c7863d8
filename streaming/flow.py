"""HTTP/2's flow control, where Twisted's own spins while a window is closed, and piles up what TCP does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from priority import PriorityTree  # type: ignore[import-untyped]
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure
from twisted.web._http2 import _END_STREAM_SENTINEL, H2Connection

from streaming import deadline
from streaming.http1 import unsent


class OpenStreams(PriorityTree):  # type: ignore[misc]
    """The streams that something can be sent on, in the client's order."""

    def __init__(self, may_send: Callable[[int], bool]) -> None:
        super().__init__()
        self._may_send = may_send

    def __next__(self) -> int:
        while True:
            stream_id: int = super().__next__()
            if self._may_send(stream_id):
                return stream_id
            self.block(stream_id)


class FlowControl(H2Connection):  # type: ignore[misc]
    """A connection that sends when its client can take it, and drops streams that are not taken at all."""

    _sendingDeferred: Any

    def __init__(self) -> None:
        super().__init__()
        self.priority = OpenStreams(self._may_send)
        self._look = deadline.Deadline()
        self._moved: set[int] = set()  # streams whose windows the client has opened since the last look; 0 is for all
        self._unsent = 0

    def dataReceived(self, data: bytes) -> None:
        """Take what comes; it may have opened windows."""
        super().dataReceived(data)
        self._go_on()

    def writeDataToStream(self, stream_id: int, data: bytes) -> None:
        super().writeDataToStream(stream_id, data)
        if self._consumerBlocked is not None:
            self.streams[stream_id].flowControlBlocked()

    def pauseProducing(self) -> None:
        """Hold the senders of all streams: TCP is full."""
        super().pauseProducing()
        for stream in self.streams.values():
            stream.flowControlBlocked()

    def resumeProducing(self) -> None:
        super().resumeProducing()
        self._go_on()

    def connectionLost(self, reason: Any, _cancelTimeouts: bool = True) -> None:
        super().connectionLost(reason, _cancelTimeouts)
        self._look.clear()

    def _requestReceived(self, event: Any) -> None:
        if not self.streams:
            self._look_later()
        super()._requestReceived(event)

    def _handleWindowUpdate(self, event: Any) -> None:
        self._moved.add(event.stream_id)
        super()._handleWindowUpdate(event)

    def _may_send(self, stream_id: int) -> bool:
        queue = self._outboundStreamQueues[stream_id]
        return bool(queue) and (queue[0] is _END_STREAM_SENTINEL or self._window(stream_id) > 0)

    def _window(self, stream_id: int) -> int:
        return int(self.conn.local_flow_control_window(stream_id))

    def _go_on(self) -> None:
        """Wake whatever may send now."""
        for stream_id, stream in self.streams.items():
            if self._may_send(stream_id):
                self.priority.unblock(stream_id)
            if self._consumerBlocked is None:
                stream.windowUpdated()
        if self._sendingDeferred is not None:
            waiting, self._sendingDeferred = self._sendingDeferred, None
            waiting.callback(None)

    def _look_later(self) -> None:
        self._moved.clear()
        self._unsent = unsent(self.transport)
        self._look.set(deadline.STALLED_S, self._drop_stalled)

    def _drop_stalled(self) -> None:
        if 0 < self._unsent <= unsent(self.transport):
            self.transport.abortConnection()
            return
        for stream_id in [stream_id for stream_id in self.streams if self._is_stalled(stream_id)]:
            self.streams[stream_id].connectionLost(Failure(ConnectionLost("The client takes nothing.")))
            self.abortRequest(stream_id)
        if self.streams:
            self._look_later()

    def _is_stalled(self, stream_id: int) -> bool:
        if self._moved & {0, stream_id} or self._window(stream_id) > 0:
            return False
        stream = self.streams[stream_id]
        held = stream.producer is not None and not stream._producerProducing
        return held or bool(self._outboundStreamQueues[stream_id])
