"""The API forms that one and the same stream is offered in."""
