"""An HTTP/2 connection of our server: each stream has its time to arrive in, and may be answered before it is here."""

from __future__ import annotations

from functools import partial
from typing import Any

from h2.errors import ErrorCodes

from common.errors import TooSlow
from streaming import deadline
from streaming.flow import FlowControl


class Upload:
    """A request that is on its way: until when, whether it is answered already, and what came in vain since."""

    def __init__(self) -> None:
        self.deadline = deadline.Deadline()
        self.answered = False
        self.thrown_away = 0


class Http2(FlowControl):
    """Twisted's, with deadlines instead of its timeout, which begins again with every byte that comes."""

    def __init__(self) -> None:
        super().__init__()
        self._deadline = deadline.Deadline()
        self._uploads: dict[int, Upload] = {}

    def connectionMade(self) -> None:
        super().connectionMade()
        self._deadline.set(self.factory.receive_timeout_s, self.timeoutConnection)

    def timeoutConnection(self) -> None:
        """Say goodbye, and close."""
        self.transport.unregisterProducer()  # TLS would wait for it
        super().timeoutConnection()

    def connectionLost(self, reason: Any, _cancelTimeouts: bool = True) -> None:
        for stream_id in list(self._uploads):
            self._forget_upload(stream_id)
        super().connectionLost(reason, _cancelTimeouts)
        if _cancelTimeouts:
            self._deadline.clear()
        else:  # a goodbye was said, and the other side has to close
            self._deadline.set(self.abortTimeout, self.forceAbortClient)

    # What Twisted calls as a stream goes on:

    def _requestReceived(self, event: Any) -> None:
        super()._requestReceived(event)
        self._deadline.clear()
        self._uploads[event.stream_id] = upload = Upload()
        upload.deadline.set(self.factory.receive_timeout_s, partial(self._late, event.stream_id))
        self._answer_refused(event.stream_id)

    def _requestDataReceived(self, event: Any) -> None:
        if self._uploads[event.stream_id].answered:
            self._throw_away(event)
        else:
            super()._requestDataReceived(event)
            self._answer_refused(event.stream_id)

    def _requestEnded(self, event: Any) -> None:
        upload = self._forget_upload(event.stream_id)
        if upload and not upload.answered:
            super()._requestEnded(event)

    def _requestAborted(self, event: Any) -> None:
        self._forget_upload(event.stream_id)
        if event.stream_id in self.streams:
            super()._requestAborted(event)

    def _requestDone(self, stream_id: int) -> None:
        super()._requestDone(stream_id)
        self._rest()

    def abortRequest(self, stream_id: int) -> None:
        self._forget_upload(stream_id)
        super().abortRequest(stream_id)

    # What a stream is refused for, and what becomes of the rest of it:

    def _answer_refused(self, stream_id: int) -> None:
        """Answer at once. What still comes is thrown away: many a client reads no answer before it has sent all."""
        stream, upload = self.streams[stream_id], self._uploads[stream_id]
        if refusal := stream._request.refusal:
            upload.answered = True
            upload.deadline.set(deadline.LINGER_S, partial(self._give_up, stream_id))
            stream._request.answer(refusal, stream.path)

    def _late(self, stream_id: int) -> None:
        seconds = self.factory.receive_timeout_s
        self.streams[stream_id]._request.refuse(TooSlow(f"The request did not arrive within {seconds:g} s."))
        self._answer_refused(stream_id)

    def _throw_away(self, event: Any) -> None:
        upload = self._uploads[event.stream_id]
        upload.thrown_away += len(event.data)
        if upload.thrown_away > deadline.LINGER_BYTES:
            self._give_up(event.stream_id)
        else:
            self.openStreamWindow(event.stream_id, event.flow_controlled_length)

    def _give_up(self, stream_id: int) -> None:
        if stream_id in self.streams:  # the client has not even taken the answer
            self.abortRequest(stream_id)
        else:
            self._forget_upload(stream_id)
            self.conn.reset_stream(stream_id, ErrorCodes.NO_ERROR)
            self._tryToWriteControlData()

    def _forget_upload(self, stream_id: int) -> Upload | None:
        if upload := self._uploads.pop(stream_id, None):
            upload.deadline.clear()
        self._rest()
        return upload

    def _rest(self) -> None:
        if not self.streams and not self._uploads:
            self._deadline.set(deadline.IDLE_S, self.timeoutConnection)
