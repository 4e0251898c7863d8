"""Which paths are the gateways'. A proxy before gateways and web processes splits them by the same rule."""

# Without the slash before it, as Channels' router takes it. deploy/nginx has it as well.
OF_GATEWAYS = r"v1/(messages|messages/count_tokens|chat/completions|(streams|models)(/.*)?)$"
METRICS = r"metrics$"  # theirs, too: any one's cover all processes. A proxy has nothing to do with them.
