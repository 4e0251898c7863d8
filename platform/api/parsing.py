"""Reading JSON bodies as strictly as the streams do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import msgspec
from rest_framework.parsers import BaseParser

from common.errors import InvalidRequest


class JsonParser(BaseParser):
    """Reads JSON objects and nothing else."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        try:
            body = msgspec.json.decode(stream.read() or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"The body is not valid JSON: {error}.") from None
        except RecursionError:
            raise InvalidRequest("The body is nested too deeply.") from None
        if not isinstance(body, dict):
            raise InvalidRequest("The body: expected a JSON object.")
        return body
