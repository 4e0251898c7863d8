"""Workers and gateways: what runs, and its drain."""
