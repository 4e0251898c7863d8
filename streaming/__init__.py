"""The gateway: ASGI endpoints that relay event logs to clients. A pipe: no database and no JSON in the token path."""
